// What somebody wrote, as a person reads it: code apart from prose, and what is cited as links. Whatever it says stays text.

import { make } from "./elements.js";
import { longText } from "./long_text.js";

const LONGEST = 40_000; // characters: of a longer text, only the beginning is shown at first
const LONGEST_MARK = 300; // characters of a text that become one link
const FENCED = /^```([^\n`]*)\n([\s\S]*?)(?:^```[ \t]*$|$(?![\s\S]))/gm;
const MARKED = /`([^`\n]+)`|\*\*([^*\n]+)\*\*/g;
const AS_LINK = /^\(?\[([^\]]+)\]\([^)\s]+\)\)?$/;

/**
 * @param {string} text
 * @param {object[]} [annotations] as the Responses API has them: their places are counted in characters
 */
export function prose(text, annotations = []) {
  if (text.length > LONGEST) return longText(text);
  const marks = toMarks(text, annotations);
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(FENCED)) {
    parts.push(...paragraph(text, at, found.index, marks), codeBlock(found[2], found[1].trim()));
    at = found.index + found[0].length;
  }
  return make("div.prose", {}, parts, paragraph(text, at, text.length, marks));
}

export const codeBlock = (code, language = "") =>
  make("div.code-block", {}, language ? make("span.dim", {}, language) : null, longText(code.replace(/\n$/, "")));

/** Where links are, in the units of JavaScript's texts: a character may take two. */
function toMarks(text, annotations) {
  const cited = annotations.filter((each) => linkOf(each) && each.end_index > each.start_index);
  if (!cited.length) return [];
  const letters = Array.from(text);
  const place = (index) => letters.slice(0, index).join("").length;
  const marks = cited.map((each) => ({ from: place(each.start_index), to: place(each.end_index), href: linkOf(each) }));
  return marks
    .filter(({ from, to }) => to - from <= LONGEST_MARK && to <= text.length)
    .sort((one, other) => one.from - other.from);
}

function paragraph(text, from, to, marks) {
  const parts = [];
  let at = from;
  for (const mark of marks) {
    if (mark.from < at || mark.to > to) continue;
    const words = text.slice(mark.from, mark.to);
    parts.push(...marked(text.slice(at, mark.from)), outerLink(mark.href, AS_LINK.exec(words)?.[1] ?? words));
    at = mark.to;
  }
  const rest = [...parts, ...marked(text.slice(at, to))];
  return rest.some((each) => each instanceof Node || each.trim()) ? [make("p", {}, trimmed(rest))] : [];
}

/** Blank lines around code are its margin. */
function trimmed(parts) {
  const last = parts.length - 1;
  return parts.map((part, at) => {
    if (part instanceof Node) return part;
    const begun = at === 0 ? part.replace(/^\n+/, "") : part;
    return at === last ? begun.trimEnd() : begun;
  });
}

function marked(text) {
  const parts = [];
  let at = 0;
  for (const { 0: whole, 1: code, 2: strong, index } of text.matchAll(MARKED)) {
    parts.push(text.slice(at, index), code ? make("code", {}, code) : make("strong", {}, strong));
    at = index + whole.length;
  }
  return [...parts, text.slice(at)];
}

// ---- links -----------------------------------------------------------------------------------------------------------

/** To another site: in a page of its own, which does not learn where from. */
export const outerLink = (href, words) => make("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, words);

/** The address of a page, if it is one; what else a URL may be is no link. */
export function webAddress(text) {
  try {
    const url = new URL(text);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
  } catch {
    return null;
  }
}

function linkOf({ type, url } = {}) {
  return type === "url_citation" || url ? webAddress(url) : null;
}
