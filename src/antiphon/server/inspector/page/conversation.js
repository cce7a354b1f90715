// The conversation of an opened request, as a person reads it: what was said, thought and called, whatever the protocol.

import { aside, card, foldedJson, foldedText, label } from "./cards.js";
import { isObject, messagesToItems } from "./chat_items.js";
import { fold, make } from "./elements.js";
import { itemCard, thoughtOf } from "./items.js";
import { longText } from "./long_text.js";
import { codeBlock, outerLink, prose, webAddress } from "./prose.js";
import { several } from "./quantities.js";
import { sources } from "./sources.js";

const EARLIER = 6; // items before the last words of the user that are not folded
const PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,/;

/** @param {object} detail what the server says of one request */
export function conversation(detail) {
  const { before, now } = parted(asked(detail));
  const answered = answerItems(detail);
  const results = resultsOf([...before, ...now, ...answered]);
  const shown = (items) => spokenItems(items, results);
  const folded = before.splice(0, Math.max(0, before.length - EARLIER));
  const reason = detail.response?.incomplete_details?.reason;
  return make(
    "div.conversation",
    {},
    instructions(detail),
    folded.length ? fold([label(several(folded.length, "earlier item"))], () => shown(folded), { class: "folded" }) : null,
    shown(before),
    shown(now),
    make("h2", {}, detail.row.status === "running" ? "Answer so far" : "Answer"),
    shown(answered),
    answered.length || detail.error ? null : make("p.dim", {}, NO_ANSWER[detail.row.status] ?? "There is no answer."),
    reason ? make("p.remark.warn", {}, `The answer is incomplete: ${reason}.`) : null,
  );
}

/** @param {object[]} items @param {Map<string, object>} [results] by the ids of their calls */
export const spokenItems = (items, results = resultsOf(items)) => items.map((item) => spoken(item, results)).filter(Boolean);

const NO_ANSWER = { running: "Nothing has come yet.", passed: "The answer was passed on, and is not recorded." };

/** What the model was told before: long, and seldom what one looks for. */
function instructions({ request, client }) {
  const { instructions: told, system } = request ?? client.body ?? {};
  const text = told ?? system;
  if (!text) return null;
  const words = Array.isArray(text) ? text.map((block) => block?.text ?? "").join("\n\n") : String(text);
  return foldedText("instructions", words);
}

/** The items of the request: of the store, and of the client. */
function asked({ request, client, history }) {
  const body = request ?? client.body ?? {};
  const given = body.input ?? body.messages ?? body.prompt ?? [];
  if (!Array.isArray(given)) return [...history, { role: "user", content: given }];
  if (body.input === undefined) return [...history, ...messagesToItems(given)];
  return [...history, ...given.map((item) => (isObject(item) ? item : { role: "user", content: item }))];
}

/** What came before the last words of the user, and these with what came after them. */
function parted(items) {
  const last = items.findLastIndex((item) => item.role === "user");
  const at = last === -1 ? items.length : last;
  return { before: items.slice(0, at), now: items.slice(at) };
}

/** The results that are shown with their calls, by the ids of these. */
function resultsOf(items) {
  const calls = new Set(items.filter((item) => !isResult(item)).map((item) => item.call_id));
  const results = items.filter((item) => item.call_id && isResult(item) && calls.has(item.call_id));
  return new Map(results.map((item) => [item.call_id, item]));
}

const isResult = (item) => item.type?.endsWith("_output") ?? false;

// ---- the answer ------------------------------------------------------------------------------------------------------

function answerItems({ response, answer: passed, timeline }) {
  if (response) return response.output ?? [];
  return passed ? messagesToItems([passed]) : soFar(timeline);
}

/** Event type → the text of the item that it continues. */
const GROWING = {
  "response.output_text.delta": "message",
  "response.refusal.delta": "message",
  "response.reasoning_text.delta": "reasoning",
  "response.reasoning_summary_text.delta": "reasoning",
  "response.function_call_arguments.delta": "arguments",
  "response.custom_tool_call_input.delta": "input",
  "response.code_interpreter_call_code.delta": "code",
};

/** The items of an answer that has not ended, or broke off. */
function soFar(timeline) {
  const items = [];
  for (const { event } of timeline) {
    const member = GROWING[event?.type];
    if (event?.item) items[event.output_index] = structuredClone(event.item);
    else if (member && items[event.output_index]) grow(items[event.output_index], member, event.delta);
  }
  return items.filter(Boolean);
}

function grow(item, member, delta) {
  if (member !== "message" && member !== "reasoning") {
    item[member] = (item[member] ?? "") + delta;
    return;
  }
  if (!item.content?.length) item.content = [{ type: "text", text: "" }];
  item.content[0].text = (item.content[0].text ?? "") + delta;
}

// ---- one item --------------------------------------------------------------------------------------------------------

function spoken(item, results) {
  const type = item.type ?? (item.role ? "message" : "item");
  const result = results.get(item.call_id);
  if (result === item) return null;
  const made = (SPOKEN[type] ?? ((each) => itemCard(each)))(item);
  if (result) made.append(...[resultOf(result)].flat());
  return made;
}

const SPOKEN = {
  message,
  reasoning: (item) => make("div.thought", {}, foldedText("thought", thoughtOf(item))),
  function_call: (item) => call(item, item.arguments),
  custom_tool_call: (item) => call(item, item.input),
  code_interpreter_call: code,
  shell_call: shell,
  local_shell_call: shell,
  web_search_call: search,
};

function message({ role, content }) {
  const parts = typeof content === "string" ? [{ text: content }] : Array.isArray(content) ? content : [];
  const told = role === "system" || role === "developer";
  const shown = parts.map((each) => part(each, told));
  return card(role, [label(role)], shown);
}

function part(value, told) {
  const text = value?.text ?? value?.refusal;
  if (typeof text !== "string") return attachment(value);
  if (told) return foldedText("text", text);
  const cited = Array.isArray(value.annotations) ? value.annotations.filter(isObject) : [];
  return [prose(text, cited), sources(cited)];
}

/** An image, a file or a sound: by its name. Nothing is loaded. */
function attachment(value) {
  const { type = "part", filename, file_id: id, file_url: url, image_url: image, source } = value ?? {};
  const name = filename ?? value?.file?.filename ?? id ?? url ?? image?.url ?? image ?? source?.url ?? source?.type ?? "";
  return make("p.attachment", {}, label(String(type).replace(/^input_/, "")), String(name).slice(0, 120));
}

function call(item, sent) {
  const name = [item.namespace, item.name].filter(Boolean).join("/");
  return card(
    "call",
    [label(name || "call"), aside(item.status === "completed" ? null : item.status)],
    foldedJson("arguments", sent ?? ""),
  );
}

function resultOf({ type, output }) {
  if (type.includes("shell")) return listed(typeof output === "string" ? [{ stdout: output }] : output).map(shellOutput);
  return foldedJson("result", output ?? "");
}

const listed = (value) => (Array.isArray(value) ? value : []);

function code(item) {
  const outputs = listed(item.outputs).map(({ logs, url } = {}) => {
    if (typeof logs === "string") return logs ? make("div.output", {}, longText(logs)) : null;
    return PICTURE.test(url) ? make("img.picture", { src: url, alt: "Image that the code made" }) : null;
  });
  return card(
    "call",
    [label("code interpreter"), containerLink(item.container_id)],
    item.code ? codeBlock(item.code) : null,
    outputs,
  );
}

const containerLink = (id) =>
  id ? make("a", { href: `#/stored/containers/${encodeURIComponent(id)}` }, "its container") : null;

function shell(item) {
  const { commands, command } = item.action ?? {};
  const lines = commands ?? (command ? [listed(command).join(" ")] : []);
  return card(
    "call",
    [label("shell"), containerLink(item.environment?.container_id)],
    listed(lines).length ? codeBlock(listed(lines).map(String).join("\n")) : null,
  );
}

function shellOutput({ stdout, stderr, outcome } = {}) {
  const failed = outcome && !(outcome.type === "exit" && outcome.exit_code === 0);
  const how = outcome?.type === "exit" ? `exit code ${outcome.exit_code}` : outcome?.type;
  return make(
    "div.output",
    {},
    stdout ? longText(String(stdout)) : null,
    stderr ? longText(String(stderr)) : null,
    failed ? make("p.dim", {}, how) : null,
  );
}

/** With links to what it found. */
function search(item) {
  const { queries, query, url, pattern, sources: found } = item.action ?? {};
  const looked = [listed(queries).length ? listed(queries).join(", ") : query, pattern, url].filter(
    (each) => typeof each === "string",
  );
  const links = listed(found ?? item.results)
    .map((each) => webAddress(each?.url))
    .filter(Boolean);
  const list = () =>
    make(
      "ul",
      {},
      [...new Set(links)].map((href) => make("li", {}, outerLink(href, href))),
    );
  return card(
    "call",
    [label("web search"), make("span", {}, looked.join(" in ")), aside(item.status === "completed" ? null : item.status)],
    links.length ? fold([label(several(links.length, "page"))], list, { class: "folded" }) : null,
  );
}
