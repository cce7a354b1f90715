// Items of the Responses API: one row for each type that is shown in its own way. Others are shown as JSON.

import { aside, card, contents, foldedJson, foldedText, label, tools } from "./cards.js";
import { codeCard, shellCard, shellResultCard } from "./code_cards.js";
import { make } from "./elements.js";
import { jsonTree } from "./json_tree.js";
import { several } from "./quantities.js";

/** @param {object} value an item; messages may leave out their type @param {string} [place] its path, as errors name it */
export function itemCard(value, place = "") {
  const type = value.type ?? (value.role ? "message" : "item");
  return (CARDS[type] ?? otherCard)(value, aside(place), type);
}

const CARDS = {
  message: (item, place) => card(item.role, [label(item.role), place], contents(item.content)),
  reasoning: (item, place) => card("thought", [label("reasoning"), place], foldedText("thought", thoughtOf(item))),
  function_call: (item, place) => callCard(item, place, item.arguments),
  custom_tool_call: (item, place) => callCard(item, place, item.input),
  function_call_output: resultCard,
  custom_tool_call_output: resultCard,
  // Tools that the gateway runs.
  mcp_call: (item, place) =>
    card("call", hostedHead("mcp call", item, place), parts(item, ["arguments", "output", "error"])),
  mcp_list_tools: (item, place) =>
    card("other", [label("mcp tools"), item.server_label, place], parts(item, ["error"]), foundTools(item)),
  mcp_approval_request: (item, place) =>
    card("call", hostedHead("approval wanted", item, aside(item.id), place), parts(item, ["arguments"])),
  mcp_approval_response: (item, place) =>
    card(
      "result",
      [label(item.approve ? "approved" : "not approved"), aside(item.approval_request_id), place],
      contents(item.reason),
    ),
  web_search_call: (item, place) =>
    card(
      "call",
      [label("web search"), ...actionHead(item.action), aside(item.status), place],
      parts(item.action ?? {}, ["sources"]),
      parts(item, ["results"]),
    ),
  file_search_call: (item, place) =>
    card(
      "call",
      [label("file search"), make("span", {}, actionGist(item)), aside(item.status), place],
      parts(item, ["results"]),
    ),
  code_interpreter_call: codeCard,
  shell_call: shellCard,
  local_shell_call: shellCard,
  shell_call_output: shellResultCard,
  local_shell_call_output: shellResultCard,
  image_generation_call: (item, place) =>
    card(
      "call",
      [label("image"), make("span", {}, item.revised_prompt ?? ""), aside(item.status), place],
      madeImage(item),
      parts(item, ["error"]),
    ),
  tool_search_call: (item, place) =>
    card("call", [label("tool search"), aside(item.call_id), aside(item.status), place], parts(item, ["arguments"])),
  tool_search_output: (item, place) => card("result", [label("tools found"), aside(item.call_id), place], foundTools(item)),
};

function hostedHead(name, item, ...asides) {
  return [label(name), hostedName(item), aside(item.status), ...asides];
}

/** A tool of an MCP server, as people write it. */
const hostedName = (item) => [item.server_label, item.name].filter(Boolean).join("/");

/** The members that are there, each folded. */
function parts(object, names) {
  return names.filter((name) => object[name] !== null && object[name] !== undefined).map((name) => part(name, object[name]));
}

const part = (name, value) => foldedJson(Array.isArray(value) ? several(value.length, name.replace(/s$/, "")) : name, value);

const IMAGES = new Set(["png", "jpeg", "webp", "gif"]);
const LARGEST_IMAGE = 8_000_000; // letters
const BASE64 = /^[A-Za-z0-9+/]+=*$/;

/** The image itself, or the beginning of its letters if it cannot be shown. */
function madeImage({ result, output_format: format = "png", revised_prompt: prompt }) {
  if (typeof result !== "string") return null;
  const isShown = IMAGES.has(format) && result.length <= LARGEST_IMAGE && BASE64.test(result);
  if (!isShown) return foldedText("image", result);
  return make("img.made-image", { src: `data:image/${format};base64,${result}`, alt: prompt || "an image" });
}

function foundTools({ tools: found }) {
  return Array.isArray(found) && found.length ? tools(found) : null;
}

/** What a search looked for, or which page it opened. */
function actionHead(action) {
  if (typeof action !== "object" || action === null) return [];
  return [aside(String(action.type ?? "").replaceAll("_", " ")), make("span", {}, actionGist(action))];
}

function actionGist({ queries, query, pattern, url }) {
  const looked = Array.isArray(queries) && queries.length ? queries.join(", ") : query;
  return [looked, pattern, url].filter((text) => typeof text === "string").join(" in ");
}

/** Item type → a few words about an item. Others are named. */
const GISTS = {
  mcp_call: hostedName,
  mcp_approval_request: hostedName,
  mcp_list_tools: (item) => [item.server_label, several(item.tools?.length ?? 0, "tool")].join(" "),
  web_search_call: (item) => actionGist(item.action ?? {}),
  file_search_call: actionGist,
  code_interpreter_call: ({ code }) => (typeof code === "string" ? code : "").split("\n", 1)[0],
  shell_call: ({ action }) => String(action?.commands?.[0] ?? ""),
  image_generation_call: (item) => item.revised_prompt,
  tool_search_output: (item) => several(item.tools?.length ?? 0, "tool"),
};

/** @param {object} item */
export function itemGist(item) {
  return [item.type, (GISTS[item.type] ?? (({ name }) => name))(item)].filter(Boolean).join(" ");
}

function callCard(item, place, sent) {
  return card("call", [label("call"), item.name, aside(item.call_id), place], foldedJson("arguments", sent ?? ""));
}

function resultCard(item, place) {
  return card("result", [label("result"), aside(item.call_id), place], foldedJson("output", item.output ?? ""));
}

function otherCard(item, place, type) {
  return card("other", [label(type), place], jsonTree(item));
}

/** The thought of a reasoning item, or what stands for it. */
export function thoughtOf(item) {
  const parts = [...(item.summary ?? []), ...(item.content ?? [])].map((part) => part.text ?? "");
  if (parts.length) return parts.join("\n\n");
  return item.encrypted_content ? `(sealed: ${item.encrypted_content.length} characters)` : "";
}
