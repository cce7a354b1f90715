// The two values at the place where two prompts part: before, and now.

import { fold, make, show } from "./elements.js";
import { label } from "./cards.js";
import { explain, getJson } from "./server.js";

const AROUND = 80; // characters shown on both sides of a difference
const MARKED = 400; // characters of the difference itself

/**
 * @param {object} changes
 * @param {object} chat what the engine got now
 */
export function promptDifference(changes, chat) {
  const path = changes.where?.path;
  if (!path) return null;
  const body = make("div", {}, "Reading the turn before…");
  return fold(
    [label("Before and now")],
    () => {
      load(body, changes.previous, path, chat);
      return body;
    },
    { class: "folded difference" },
  );
}

async function load(body, previous, path, chat) {
  try {
    const { asks } = await getJson(`/inspector/requests/${previous}`);
    const [before, now] = [asks.at(-1)?.chat, chat].map((each) => words(valueAt(each, path)));
    show(body, texts(before, now));
  } catch (error) {
    show(body, explain(error));
  }
}

/** @param {string} path "messages[3].content" */
export function valueAt(value, path) {
  return path
    .split(/[.[\]]+/)
    .filter(Boolean)
    .reduce((found, name) => found?.[name], value);
}

const words = (value) => (typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value, null, 2));

function texts(before, now) {
  const start = commonStart(before, now);
  const end = commonEnd(before.slice(start), now.slice(start));
  return make(
    "dl.fields",
    {},
    [
      ["before", before],
      ["now", now],
    ].map(([name, text]) => [
      make("dt", {}, name),
      make("dd", {}, text === "" ? make("span.dim", {}, "nothing") : excerpt(text, start, text.length - end)),
    ]),
  );
}

/** The difference from `start` to `end`, marked, and what is around it. */
function excerpt(text, start, end) {
  const from = Math.max(0, start - AROUND);
  const until = Math.min(end, start + MARKED);
  const after = until < end ? "" : text.slice(end, end + AROUND);
  const more = until < end || end + AROUND < text.length ? "…" : "";
  return make("pre", {}, from > 0 ? "…" : "", text.slice(from, start), make("mark", {}, text.slice(start, until)), after, more);
}

function commonStart(one, other) {
  const most = Math.min(one.length, other.length);
  let at = 0;
  while (at < most && one[at] === other[at]) at += 1;
  return at;
}

function commonEnd(one, other) {
  const most = Math.min(one.length, other.length);
  let length = 0;
  while (length < most && one.at(-1 - length) === other.at(-1 - length)) length += 1;
  return length;
}
