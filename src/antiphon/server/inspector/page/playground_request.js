// The request that the playground sends, from what was typed.

/** A field that cannot be sent as it is. */
export class FieldProblem extends Error {}

/** The item that answers a call, by the call's type. Others are run by the gateway, or need more than a text. */
export const RESULTS = {
  function_call: (call, output) => ({ type: "function_call_output", call_id: call.call_id, output }),
  custom_tool_call: (call, output) => ({ type: "custom_tool_call_output", call_id: call.call_id, output }),
  mcp_approval_request: (call, answer) => ({
    type: "mcp_approval_response",
    approval_request_id: call.id,
    approve: answer === APPROVED,
  }),
};
export const APPROVED = "approved";

/**
 * @param {Object<string, any>} typed what `PlaygroundOptions.read` returns
 * @param {object[]} input
 * @param {{previous_response_id?: string, conversation?: string}} from what it goes on from
 */
export function requestBody(typed, input, from) {
  const body = { model: typed.model, input, stream: true, ...from };
  if (typed.instructions.trim()) body.instructions = typed.instructions;
  if (typed.effort) body.reasoning = { effort: typed.effort };
  if (typed.temperature.trim()) body.temperature = temperature(typed.temperature);
  if (typed.limit.trim()) body.max_output_tokens = wholeNumber(typed.limit);
  if (typed.format !== "text") body.text = { format: format(typed) };
  const tools = [...hostedTools(typed), ...functions(typed.tools)];
  if (tools.length) body.tools = tools;
  return body;
}

function wholeNumber(text) {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1) throw new FieldProblem("Max output tokens must be a whole number above 0.");
  return number;
}

function temperature(text) {
  const number = Number(text);
  if (!(number >= 0 && number <= 2)) throw new FieldProblem("The temperature must be a number from 0 to 2.");
  return number;
}

function format({ format: type, schema }) {
  if (type !== "json_schema") return { type };
  if (!schema.trim()) throw new FieldProblem("JSON by a schema needs the schema.");
  return { type, name: "answer", schema: fromJson(schema, "The schema is"), strict: true };
}

function hostedTools({ webSearch, codeInterpreter, fileSearch, store, servers, unasked }) {
  if (fileSearch && !store) throw new FieldProblem("File search needs a vector store: choose one, or drop a file.");
  const lines = servers.split("\n").map((line) => line.trim());
  return [
    webSearch ? { type: "web_search" } : null,
    codeInterpreter ? { type: "code_interpreter", container: { type: "auto" } } : null,
    fileSearch ? { type: "file_search", vector_store_ids: [store] } : null,
    ...lines.map((line) => (line ? server(line, unasked) : null)),
  ].filter(Boolean);
}

/** One of the settings has a label only. */
function server(line, unasked) {
  const [label, url] = line.split(/\s+/);
  const tool = { type: "mcp", server_label: label };
  if (url) tool.server_url = url;
  if (unasked) tool.require_approval = "never";
  return tool;
}

/** A list of tools, or one. Tools of Chat Completions are taken too. */
function functions(text) {
  if (!text.trim()) return [];
  const read = fromJson(text, "The tools are");
  const list = Array.isArray(read) ? read : [read];
  if (list.some((tool) => typeof tool !== "object" || tool === null))
    throw new FieldProblem("The tools must be a list of objects.");
  return list.map((tool) => (tool.type === "function" && tool.function ? { type: "function", ...tool.function } : tool));
}

function fromJson(text, what) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new FieldProblem(`${what} not JSON: ${error.message}`);
  }
}
