// The first pane of an opened request: what the client sent.

import { aside, fields, foldedJson, foldedText, label, tools } from "./cards.js";
import { messageCard } from "./chat_messages.js";
import { choice, fold, make, show } from "./elements.js";
import { itemCard } from "./items.js";
import { jsonTree } from "./json_tree.js";
import { longText } from "./long_text.js";
import { several } from "./quantities.js";

/** These have a form of their own; the others are listed as fields. */
const SHOWN_APART = new Set(["client_metadata", "input", "instructions", "messages", "system", "tools"]);

/** @param {object} detail what the server says of one request */
export function clientPane(detail) {
  const { client, history } = detail;
  const body = make("div");
  const forms = { items: () => formatted(client, history), json: () => raw(client) };
  const showForm = (form) => show(body, forms[form]());
  showForm("items");
  return [
    make(
      "div.pane-tools",
      {},
      make("code", {}, client.path ?? ""),
      choice(
        "Form",
        [
          ["items", "Items"],
          ["json", "JSON"],
        ],
        "items",
        showForm,
      ),
    ),
    client.redacted
      ? make("p.remark", {}, "This gateway shows no texts, only their lengths: `inspector_bodies` is false.")
      : null,
    body,
  ];
}

function formatted(client, history = []) {
  if (!client.body) return raw(client);
  const { body } = client;
  return [
    fields(
      body,
      Object.keys(body).filter((name) => !SHOWN_APART.has(name)),
    ),
    client.headers
      ? fold([label("headers")], () => fields(client.headers, Object.keys(client.headers)), { class: "folded" })
      : null,
    // Long, and seldom what one looks for: Codex sends it with each request.
    body.client_metadata ? foldedJson("client_metadata", body.client_metadata) : null,
    body.tools?.length ? tools(body.tools) : null,
    body.instructions ? foldedText("instructions", String(body.instructions)) : null,
    body.system ? foldedText("system", textOf(body.system)) : null,
    history.length ? storedItems(history) : null,
    ...inputItems(body.input),
    ...chatMessages(body.messages),
  ];
}

/** Of Anthropic's API: a text, or blocks of it. */
function textOf(system) {
  if (!Array.isArray(system)) return String(system);
  return system.map((block) => block?.text ?? JSON.stringify(block)).join("\n\n");
}

/** Messages of Chat Completions and of Anthropic's API. */
function chatMessages(messages) {
  if (messages === undefined || messages === null) return [];
  if (!Array.isArray(messages)) return [jsonTree(messages)];
  return messages.map((message, index) => (isObject(message) ? messageCard(message, index) : jsonTree(message)));
}

function storedItems(history) {
  const summary = [label("history"), aside(`${several(history.length, "item")} from the store`)];
  return fold(summary, () => history.map((item) => itemCard(item)), { class: "folded" });
}

function inputItems(input) {
  if (input === undefined || input === null) return [];
  if (!Array.isArray(input)) return [itemCard({ role: "user", content: input }, "input")];
  return input.map((item, index) => (isObject(item) ? itemCard(item, `input[${index}]`) : jsonTree(item)));
}

const isObject = (value) => typeof value === "object" && value !== null;

function raw(client) {
  if (client.body) return [jsonTree(client.body, { open: 2 })];
  return [client.text ? longText(client.text) : make("p.dim", {}, "The body was not recorded.")];
}
