// Messages of Chat Completions and of Anthropic's API as items, so that a conversation is shown alike whatever its protocol.

/** @param {object[]} messages @returns {object[]} items of the Responses API, as far as they are shown */
export const messagesToItems = (messages) => messages.filter(isObject).flatMap(messageToItems);

export const isObject = (value) => typeof value === "object" && value !== null;

function messageToItems(message) {
  const { role, content } = message;
  if (role === "tool") return [{ type: "function_call_output", call_id: message.tool_call_id, output: content }];
  const thought = message.reasoning_content ?? message.reasoning;
  const blocks = Array.isArray(content) ? content : [content ?? ""];
  return [
    ...(thought ? [toThought(String(thought))] : []),
    ...blocks.flatMap((block) => BLOCKS[block?.type]?.(block) ?? [said(role, message, block)]),
    ...(message.tool_calls ?? []).map(toCall),
  ].filter((item) => item.type !== "message" || item.content.length);
}

/** Of an answer of Chat Completions: its citations are of the message. */
function said(role, { refusal, annotations }, block) {
  const cited = (annotations ?? []).map((each) => ({ type: each?.type, ...(each?.url_citation ?? each?.file_citation) }));
  const text = typeof block === "string" ? block || refusal : null;
  const part = text === null ? block : { type: "text", text, annotations: cited };
  return { type: "message", role, content: text === undefined || text === "" || part === null ? [] : [part] };
}

const toThought = (text) => ({ type: "reasoning", content: [{ type: "reasoning_text", text }] });
const toCall = ({ id, function: called, custom }) => ({
  type: custom ? "custom_tool_call" : "function_call",
  call_id: id,
  name: called?.name ?? custom?.name,
  arguments: called?.arguments,
  input: custom?.input,
});

/** Blocks of Anthropic's API that are items of their own. */
const BLOCKS = {
  thinking: ({ thinking }) => [toThought(String(thinking ?? ""))],
  tool_use: used,
  server_tool_use: used,
  mcp_tool_use: used,
  tool_result: returned,
  mcp_tool_result: returned,
};

function used({ id, name, input }) {
  return [{ type: "function_call", call_id: id, name, arguments: input ?? {} }];
}

function returned({ tool_use_id: id, content }) {
  return [{ type: "function_call_output", call_id: id, output: content ?? "" }];
}
