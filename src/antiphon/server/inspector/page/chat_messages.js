// Messages of Chat Completions, as an engine gets them.

import { aside, card, contents, foldedJson, foldedText, label } from "./cards.js";

/**
 * @param {object} message
 * @param {number} index
 * @param {{change?: "new"|"again"|null}} [mark] what it is for the engine's prompt cache
 */
export function messageCard(message, index, { change = null } = {}) {
  const { role } = message;
  const head = [label(role), aside(message.tool_call_id), CHANGES[change]?.(), aside(`messages[${index}]`)];
  const made =
    role === "tool" ? card("result", head, foldedJson("output", message.content ?? "")) : card(role, head, said(message));
  if (change) made.dataset.change = change;
  return made;
}

function said(message) {
  const thought = message.reasoning_content ?? message.reasoning;
  return [
    thought ? foldedText("thought", String(thought)) : null,
    contents(message.content),
    (message.tool_calls ?? []).map(call),
  ];
}

const CHANGES = { new: () => label("new"), again: () => label("read again") };

function call({ id, function: called }) {
  return card("call", [label("call"), called?.name, aside(id)], foldedJson("arguments", called?.arguments ?? ""));
}
