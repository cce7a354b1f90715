// One row of the list of requests: its columns, and which filter it passes.

import { make } from "./elements.js";
import { count, dayAndTime, host, percent, rate, seconds, several } from "./quantities.js";

/** Statuses that a person looks for as failures. */
export const FAILURES = new Set(["failed", "refused"]);

/** While the engine reads the prompt: how far it is, if it reports that. */
const statusOf = ({ status, prompt_read: read }) => (typeof read === "number" ? `reading ${percent(read)}` : status);

export const statusMark = (row) => make("span.status", { "data-status": row.status }, statusOf(row));

/** name, title, text or node, and what explains the title. */
export const COLUMNS = [
  ["number", "#", (row) => `#${row.number}`],
  ["at", "When", (row) => dayAndTime(row.at)],
  ["status", "Status", statusOf],
  ["model", "Model", (row) => row.model ?? "–"],
  ["engine", "Engine", (row) => host(row.engine)],
  ["preview", "Request", (row) => summary(row)],
  ["answer", "Answer", (row) => answerOf(row)],
  ["first", "First token", (row) => seconds(row.first_token), "Time to the first token"],
  ["rate", "Tok/s", (row) => rate(row.tokens_per_second), "Tokens per second"],
  ["in", "In", (row) => count(row.input_tokens), "Tokens of the prompt"],
  [
    "cached",
    "Cached",
    (row) => count(row.cached_tokens) + (row.prefix_changed ? " ≠" : ""),
    "Tokens of the prompt that the engine had in its cache; ≠: the beginning of the prompt changed since the turn before",
  ],
  ["out", "Out", (row) => count(row.output_tokens), "Tokens of the answer"],
  ["seconds", "Took", (row) => seconds(row.seconds), "From the arrival to the end"],
];

function summary(row) {
  const { channel, notices } = row;
  const marks = [
    channel === "http" ? null : channel,
    apiOf(row),
    notices ? several(notices, "notice") : null,
  ];
  return [wordsOf(row).slice(0, 200), ...marks].filter(Boolean).join(" · ");
}

/** The beginning of what was answered, and which tools were called: "weather ×2, shell". */
function answerOf({ answer, called, tool_calls: calls }) {
  const times = new Map();
  for (const name of called ?? []) times.set(name, (times.get(name) ?? 0) + 1);
  const names = [...times].map(([name, number]) => (number > 1 ? `${name} ×${number}` : name)).join(", ");
  const more = calls > (called?.length ?? 0) ? ", …" : "";
  return [answer, calls ? `${several(calls, "call")}: ${names}${more}` : null].filter(Boolean).join(" · ");
}

/** Which API the client speaks, if it is another one than the Responses API. */
export function apiOf({ path }) {
  const name = (path ?? "").replace(/^\/v1\//, "");
  return !name || name.startsWith("responses") ? null : name;
}

/** What went wrong, what the user wrote, or what it goes on from: results of calls are no words of the user. */
function wordsOf({ error, preview, previous, asks, status }) {
  if (error) return `${error.code ?? "error"}: ${error.message}`;
  if (preview || previous) return preview ?? `continues #${previous}`;
  return status === "completed" && !asks ? "no engine was asked" : "";
}

/** @param {object} row */
export function makeRow(row) {
  const node = make("tr", { role: "row", "data-number": row.number });
  for (const [name] of COLUMNS) {
    const cell = make("td", { role: "cell", "data-column": name });
    if (name === "number") cell.append(make("a", { href: `#/requests/${row.number}` }));
    node.append(cell);
  }
  updateRow(node, row);
  return node;
}

/** Changes what differs, so that the focus stays where it is. */
export function updateRow(node, row) {
  node.dataset.status = row.status;
  COLUMNS.forEach(([, , text], index) => {
    const cell = node.cells[index];
    const place = cell.firstElementChild ?? cell;
    const value = text(row);
    if (place.textContent !== value) place.textContent = value;
  });
}

/** Whether a row of the live stream belongs to the list, as the server would decide it. */
export function passes(row, { status, model, search }) {
  if (status === "running" && row.status !== "running") return false;
  if (status === "failed" && !FAILURES.has(row.status)) return false;
  if (model && row.model !== model) return false;
  if (!search) return true;
  const { id, engine, preview, answer, error, owner } = row;
  const words = [id, row.model, engine, preview, answer, error?.code, error?.message, owner, row.status];
  return words.filter(Boolean).join("\n").toLowerCase().includes(search.toLowerCase());
}
