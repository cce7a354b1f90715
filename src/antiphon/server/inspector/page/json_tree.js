// Any JSON value as a tree that is folded, and built only as far as it is opened.

import { button, fold, make } from "./elements.js";
import { longText } from "./long_text.js";
import { count } from "./quantities.js";

const INLINE = 160; // characters of a text that stays on the line of its name
const MEMBERS = 100; // members that are shown at once

/**
 * @param {any} value
 * @param {{open?: number}} [options] how many levels are open at first
 */
export function jsonTree(value, { open = 1 } = {}) {
  return make("div.json", {}, isBranch(value) ? members(value, open) : leaf(null, value));
}

const isBranch = (value) => typeof value === "object" && value !== null && Object.keys(value).length > 0;

function members(value, open) {
  const entries = Object.entries(value);
  const list = make("div.json-members");
  let shown = 0;
  const more = button("", () => add());
  const add = () => {
    const next = entries.slice(shown, shown + MEMBERS);
    shown += next.length;
    more.remove();
    list.append(...next.map(([name, member]) => entry(Array.isArray(value) ? Number(name) : name, member, open)));
    more.textContent = `Show more of ${count(entries.length)} (${count(shown)} are shown)`;
    if (shown < entries.length) list.append(more);
  };
  add();
  return list;
}

function entry(name, value, open) {
  if (!isBranch(value)) return leaf(name, value);
  const size = Object.keys(value).length;
  const brackets = Array.isArray(value) ? `[${size}]` : `{${size}}`;
  const summary = [named(name), make("span.json-size", {}, brackets), " ", make("span.json-hint", {}, hint(value))];
  return fold(summary, () => members(value, open - 1), { open: open > 1 });
}

/** What tells siblings apart while they are folded. */
function hint(value) {
  const told = ["type", "role", "name", "id"].map((name) => value[name]).filter((member) => typeof member === "string");
  return told.slice(0, 2).join(" · ").slice(0, 60);
}

function leaf(name, value) {
  if (typeof value === "string" && (value.length > INLINE || value.includes("\n"))) {
    return make("div.json-leaf", {}, named(name), make("div.json-long", {}, longText(value, { shown: 600 })));
  }
  const kind = value === null ? "null" : typeof value;
  return make("div.json-leaf", {}, named(name), make(`span.json-${kind}`, {}, JSON.stringify(value)));
}

const named = (name) => (name === null ? null : make("span.json-name", {}, `${name}: `));
