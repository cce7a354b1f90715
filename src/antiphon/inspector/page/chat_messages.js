// Messages of Chat Completions, as an engine gets them.

import { aside, card, contents, foldedJson, foldedText, label } from "./cards.js";

/**
 * @param {object} message
 * @param {number} index
 * @param {{change?: "new"|"again"|null}} [mark] what it is for the engine's prompt cache
 */
export function messageCard(message, index, { change = null } = {}) {
  const thought = message.reasoning_content ?? message.reasoning;
  const made = card(
    message.role === "tool" ? "result" : message.role,
    [label(message.role), aside(message.tool_call_id), CHANGES[change]?.(), aside(`messages[${index}]`)],
    thought ? foldedText("thought", String(thought)) : null,
    message.role === "tool" ? foldedJson("output", message.content ?? "") : contents(message.content),
    (message.tool_calls ?? []).map(call),
  );
  if (change) made.dataset.change = change;
  return made;
}

const CHANGES = { new: () => label("new"), again: () => label("read again") };

function call({ id, function: called }) {
  return card("call", [label("call"), called?.name, aside(id)], foldedJson("arguments", called?.arguments ?? ""));
}
