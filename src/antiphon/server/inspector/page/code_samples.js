// A recorded request as code that sends it again.

import { address } from "./server.js";

// The parameters of the SDK's methods. Everything else goes into `extra_body`.
export const PARAMETERS = {
  create: new Set(
    `access_programs background context_management conversation image include input instructions max_output_tokens
    max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt prompt_cache_key
    prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options
    temperature text tool_choice tools top_logprobs top_p truncation user`.split(/\s+/),
  ),
  compact: new Set(
    `image input instructions model previous_response_id prompt_cache_key prompt_cache_options prompt_cache_retention
    service_tier`.split(/\s+/),
  ),
};
const INDENT = "    ";

/** @param {{path: string|null, body: object}} client */
export function asCurl(client) {
  const streams = client.body.stream ? " -N" : "";
  return [
    `curl${streams} ${shellWord(address(pathOf(client)))}`,
    "-H 'Content-Type: application/json'",
    '-H "Authorization: Bearer $OPENAI_API_KEY"',
    `--data-binary ${shellWord(JSON.stringify(bodyOf(client)))}`,
  ].join(" \\\n  ");
}

const shellWord = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** @param {{path: string|null, body: object}} client */
export function asPython(client) {
  const body = bodyOf(client);
  const method = pathOf(client).endsWith("/compact") ? "compact" : "create";
  const known = Object.entries(body).filter(([name]) => PARAMETERS[method].has(name));
  const extra = Object.entries(body).filter(([name]) => !PARAMETERS[method].has(name));
  const given = known.map(([name, value]) => `${INDENT}${name}=${pythonValue(value, INDENT)},`);
  if (extra.length) given.push(`${INDENT}extra_body=${pythonValue(Object.fromEntries(extra), INDENT)},`);
  return [
    "import os",
    "",
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url=${JSON.stringify(address("/v1"))}, api_key=os.environ.get("OPENAI_API_KEY", "none"))`,
    `${body.stream ? "stream" : "response"} = client.responses.${method}(`,
    ...given,
    ")",
    ...(body.stream ? ["for event in stream:", `${INDENT}print(event)`] : ["print(response.output)"]),
    "",
  ].join("\n");
}

/** A WebSocket's message has a type, and no path of its own. */
function bodyOf({ body }) {
  if (body.type !== "response.create") return body;
  const entries = Object.entries(body).filter(([name]) => name !== "type");
  return { ...Object.fromEntries(entries), stream: true };
}

const pathOf = ({ path, body }) => (body.type === "response.create" || !path ? "/v1/responses" : path);

const WORDS = { null: "None", true: "True", false: "False" };

/** JSON → a Python literal. Python reads every escape that JSON writes but surrogates, which are left as they are. */
export function pythonValue(value, indent) {
  const inner = indent + INDENT;
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value !== "object" || value === null) return WORDS[value] ?? String(value);
  const list = Array.isArray(value);
  const members = Object.entries(value).map(
    ([name, member]) => `${inner}${list ? "" : `${JSON.stringify(name)}: `}${pythonValue(member, inner)},\n`,
  );
  const [open, close] = list ? "[]" : "{}";
  return members.length ? `${open}\n${members.join("")}${indent}${close}` : open + close;
}
