// Cards for items and messages: what somebody said, thought, called or got back.

import { fold, make } from "./elements.js";
import { jsonTree } from "./json_tree.js";
import { longText } from "./long_text.js";
import { bytes, several } from "./quantities.js";

const GLIMPSE = 70; // characters of what is folded

/**
 * @param {string} kind user, assistant, system, tool, thought, call, result, other: its colour
 * @param {any[]} head
 * @param {any[]} parts
 */
export function card(kind, head, ...parts) {
  return make("article.card", { "data-kind": kind }, make("header.card-head", {}, head), parts);
}

export const label = (text) => make("span.label", {}, text);
export const aside = (text) => (text ? make("span.dim", {}, text) : null);

/** A text that is folded, with its beginning and its size on the line. */
export function foldedText(name, text, whole = () => longText(text)) {
  const glimpse = text
    .slice(0, GLIMPSE * 2)
    .replace(/\s+/g, " ")
    .slice(0, GLIMPSE);
  const summary = [label(name), make("span.glimpse", {}, glimpse), make("span.size", {}, bytes(text.length))];
  return fold(summary, whole, { class: "folded" });
}

/** A folded JSON value: a tree, or a text that only should have been JSON. */
export function foldedJson(name, value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return foldedText(name, text, () => jsonOrText(value));
}

function jsonOrText(value) {
  if (typeof value !== "string") return jsonTree(value, { open: 3 });
  try {
    return jsonTree(JSON.parse(value), { open: 3 });
  } catch {
    return longText(value);
  }
}

/**
 * @param {string|object[]|null} content of a message, in any protocol
 * @param {Object<string, function(object): any>} [own] how parts of some types are shown
 */
export function contents(content, own = {}) {
  if (content === null || content === undefined || content === "") return [];
  if (typeof content === "string") return [longText(content)];
  if (!Array.isArray(content)) return [jsonTree(content)];
  return content.map((each) => (own[each?.type] ?? part)(each));
}

function part(value) {
  if (typeof value !== "object" || value === null) return jsonTree(value);
  const text = value.text ?? value.refusal;
  if (typeof text === "string") return [longText(text), citations(value.annotations)];
  const image = value.image_url?.url ?? value.image_url;
  if (typeof image === "string") return make("p.attachment", {}, label("image"), image.slice(0, 120));
  return make("div.attachment", {}, label(value.type ?? "part"), jsonTree(value));
}

/** What a text cites. Links of others are not followed from here: they are texts. */
function citations(list) {
  if (!Array.isArray(list) || !list.length) return null;
  return foldedText(several(list.length, "citation"), list.map(citation).join("\n"));
}

function citation(annotation) {
  const { title, url, filename, file_id: file } = annotation ?? {};
  return [title, url, filename, file].filter((each) => typeof each === "string" && each).join(" ");
}

/** Tools, folded twice: the list, and each definition. */
export function tools(list) {
  return fold([label(several(list.length, "tool"))], () => list.map(tool), { class: "folded tools" });
}

function tool(definition) {
  const { name, description, server_label: server } = definition.function ?? definition;
  const shown = name ?? [definition.type ?? "tool", server].filter(Boolean).join(" ");
  const summary = [label(shown), make("span.glimpse", {}, (description ?? "").slice(0, GLIMPSE))];
  return fold(summary, () => jsonTree(definition, { open: 3 }), { class: "folded tool" });
}

/** Small fields, name and value in a grid. */
export function fields(object, names) {
  const rows = names
    .filter((name) => name in object)
    .map((name) => [make("dt", {}, name), make("dd", {}, fieldValue(object[name]))]);
  return rows.length ? make("dl.fields", {}, rows) : null;
}

const ON_ONE_LINE = 60; // characters

function fieldValue(value) {
  const text = JSON.stringify(value);
  const tree = text.length > ON_ONE_LINE && typeof value === "object";
  return tree ? jsonTree(value, { open: 1 }) : typeof value === "string" ? longText(text) : make("code", {}, text);
}
