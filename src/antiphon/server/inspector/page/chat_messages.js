// Messages of Chat Completions, as clients send them and engines get them, and those of Anthropic's API.

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
    contents(message.content, BLOCKS),
    (message.tool_calls ?? []).map(call),
  ];
}

/** Blocks of Anthropic's API that are shown in their own way. */
const BLOCKS = {
  thinking: ({ thinking }) => foldedText("thought", String(thinking ?? "")),
  tool_use: used,
  server_tool_use: used,
  mcp_tool_use: used,
  tool_result: returned,
  mcp_tool_result: returned,
};

function used({ id, name, input }) {
  return card("call", [label("call"), name, aside(id)], foldedJson("arguments", input ?? {}));
}

function returned({ tool_use_id: id, content, is_error: failed }) {
  return card("result", [label(failed ? "error" : "result"), aside(id)], foldedJson("output", content ?? ""));
}

const CHANGES = { new: () => label("new"), again: () => label("read again") };

function call({ id, function: called }) {
  return card("call", [label("call"), called?.name, aside(id)], foldedJson("arguments", called?.arguments ?? ""));
}
