// The request that the playground sends, from what was typed.

/** A field that cannot be sent as it is. */
export class FieldProblem extends Error {}

/** The item that answers a call, by the call's type. Others are run by the gateway, or need more than a text. */
export const RESULTS = {
  function_call: (call, output) => ({ type: "function_call_output", call_id: call.call_id, output }),
  custom_tool_call: (call, output) => ({ type: "custom_tool_call_output", call_id: call.call_id, output }),
};

/**
 * @param {{model: string, instructions: string, effort: string, limit: string, tools: string}} typed
 * @param {object[]} input
 * @param {string|null} previous the response that it goes on from
 */
export function requestBody(typed, input, previous) {
  const body = { model: typed.model, input, stream: true };
  if (typed.instructions.trim()) body.instructions = typed.instructions;
  if (typed.effort) body.reasoning = { effort: typed.effort };
  if (typed.limit.trim()) body.max_output_tokens = wholeNumber(typed.limit);
  if (typed.tools.trim()) body.tools = toolList(typed.tools);
  if (previous) body.previous_response_id = previous;
  return body;
}

function wholeNumber(text) {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1) throw new FieldProblem("Max output tokens must be a whole number above 0.");
  return number;
}

/** A list of tools, or one. Tools of Chat Completions are taken too. */
function toolList(text) {
  let read;
  try {
    read = JSON.parse(text);
  } catch (error) {
    throw new FieldProblem(`The tools are not JSON: ${error.message}`);
  }
  const list = Array.isArray(read) ? read : [read];
  if (list.some((tool) => typeof tool !== "object" || tool === null))
    throw new FieldProblem("The tools must be a list of objects.");
  return list.map((tool) => (tool.type === "function" && tool.function ? { type: "function", ...tool.function } : tool));
}
