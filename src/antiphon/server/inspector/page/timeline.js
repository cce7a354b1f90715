// The timeline of a request as rows: deltas that follow one another are one row until it is opened.

import { itemGist } from "./items.js";

/**
 * @typedef {{at: number|null, kind: string, ask: number|null, chunk: number|null, event: object|null, type: string|null,
 *   note: string|null}} Entry
 * @typedef {{first: number, last: number}} Group the entries that are one row, by index
 */

/** @param {Entry[]} entries @returns {Group[]} */
export function grouped(entries) {
  const groups = [];
  entries.forEach((entry, index) => {
    const group = groups.at(-1);
    if (group && joins(entries[group.last], entry)) group.last = index;
    else groups.push({ first: index, last: index });
  });
  return groups;
}

const isDelta = (entry) => entry.type?.endsWith(".delta") ?? false;
const itemOf = (entry) => entry.event?.output_index;
const joins = (one, next) => isDelta(one) && one.type === next.type && one.ask === next.ask && itemOf(one) === itemOf(next);

/** @returns {Map<number, number[]>} chunk → the entries that came from it */
export function entriesByChunk(entries) {
  const found = new Map();
  entries.forEach(({ chunk }, index) => {
    if (chunk === null || chunk === undefined) return;
    if (!found.has(chunk)) found.set(chunk, []);
    found.get(chunk).push(index);
  });
  return found;
}

/** The name of an event without what all names have in common. */
export const shortType = (entry) => (entry.type ? entry.type.replace(/^response\./, "") : entry.kind);

/** A few words about one row. */
export function gist(entries, { first, last }) {
  if (last > first)
    return entries
      .slice(first, Math.min(last + 1, first + 30))
      .map((entry) => entry.event?.delta ?? "")
      .join("");
  const { event, note } = entries[first];
  return note ?? (event ? eventGist(event) : "");
}

/** Where an event says most, the first that is there. */
const TELLING = [
  (event) => event.delta,
  (event) => event.text,
  (event) => event.arguments,
  (event) => event.input,
  (event) => event.refusal,
  (event) => event.item && itemGist(event.item),
  (event) => event.annotation && [event.annotation.title, event.annotation.url ?? event.annotation.filename].join(" "),
  (event) => event.part?.type,
  (event) => event.response?.error?.message,
  (event) => event.response?.status,
  (event) => event.message,
];

function eventGist(event) {
  const found = TELLING.map((read) => read(event)).find((text) => typeof text === "string");
  return found ?? "";
}

/** What is new in a chunk: all of them begin alike. */
export function chunkGist(text) {
  try {
    const { choices, usage, error } = JSON.parse(text.replace(/^data: ?/, ""));
    const { delta, message, finish_reason: reason } = choices?.[0] ?? {};
    return [delta ?? message ?? error ?? usage, reason]
      .filter(Boolean)
      .map((part) => JSON.stringify(part))
      .join(" ");
  } catch {
    return text;
  }
}
