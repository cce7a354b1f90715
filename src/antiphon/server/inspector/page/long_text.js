// Texts of any length: the first part at once, the rest when it is asked for.

import { button, make } from "./elements.js";
import { bytes } from "./quantities.js";

const SHOWN = 1200; // characters
const LINES = 16;
const BLOCK = 20000; // characters that the browser lays out together

/** @param {string} text */
export function longText(text, { shown = SHOWN } = {}) {
  const start = beginning(text, shown);
  if (start.length === text.length) return make("pre.text", {}, text);
  const body = make("pre.text", {}, start);
  const more = button(`Show all ${bytes(text.length)}`, () => toggle(), { class: "inline more", "aria-expanded": "false" });
  const toggle = () => {
    const open = more.getAttribute("aria-expanded") === "true";
    body.replaceChildren(...(open ? [start] : blocks(text)));
    more.setAttribute("aria-expanded", String(!open));
    more.textContent = open ? `Show all ${bytes(text.length)}` : "Show less";
  };
  return make("div", {}, body, more);
}

function beginning(text, shown) {
  if (text.length <= shown * 1.25 && lineEnd(text, LINES + 4) >= text.length) return text;
  return text.slice(0, Math.min(shown, lineEnd(text, LINES)));
}

function lineEnd(text, lines) {
  let at = -1;
  for (let line = 0; line < lines; line += 1) {
    at = text.indexOf("\n", at + 1);
    if (at === -1) return text.length;
  }
  return at;
}

/** Blocks that end with a line where possible: the browser skips those that are out of sight. */
function blocks(text) {
  if (text.length <= BLOCK) return [text];
  const made = [];
  for (let at = 0; at < text.length;) {
    const newline = text.indexOf("\n", at + BLOCK);
    const end = newline === -1 || newline > at + 2 * BLOCK ? Math.min(at + BLOCK, text.length) : newline + 1;
    made.push(make("span.block", {}, text.slice(at, end)));
    at = end;
  }
  return made;
}
