// What stands above the panes of an opened request: its numbers, what can be done with it, and what went wrong.

import { announce, button, make } from "./elements.js";
import { changeLine } from "./engine_pane.js";
import { copy, download } from "./clipboard.js";
import { asCurl, asPython } from "./code_samples.js";
import { count, host, moment, percent, rate, seconds } from "./quantities.js";
import { apiOf, statusMark } from "./request_row.js";
import { explain, request } from "./server.js";

/** Name → its value in words. */
const NUMBERS = [
  ["first token", (row) => seconds(row.first_token)],
  ["tokens/s", (row) => rate(row.tokens_per_second)],
  ["in", (row) => count(row.input_tokens)],
  ["cached", (row) => cachedShare(row)],
  ["out", (row) => count(row.output_tokens)],
  ["reasoning", (row) => count(row.reasoning_tokens)],
  ["time", (row) => seconds(row.seconds)],
];

function cachedShare({ cached_tokens: cached, input_tokens: all }) {
  return cached && all ? `${count(cached)} (${percent(cached / all)})` : count(cached);
}

/** Redrawn whenever the row changes. */
export function numbers(row) {
  return [
    make("h1", {}, `#${row.number} `, make("span", {}, row.model ?? "no model")),
    statusMark(row),
    make("span.dim", {}, [host(row.engine), row.channel, apiOf(row), moment(row.at), row.owner].filter(Boolean).join(" · ")),
    make(
      "dl.numbers",
      {},
      NUMBERS.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd.number", {}, value(row)))),
    ),
  ];
}

/** @param {object} detail what the server says of one request */
export function actions({ row, client, response }) {
  const whole = client.body && !client.redacted;
  const title = whole ? null : "The texts of this request are not shown here";
  const attributes = { disabled: !whole, title };
  return make(
    "div.actions",
    {},
    row.previous ? make("a.button", { href: `#/requests/${row.previous}` }, `Previous turn #${row.previous}`) : null,
    response?.store ? make("a.button", { href: `#/playground/${response.id}` }, "Continue in the playground") : null,
    button("Copy as curl", () => copy(asCurl(client), "the request as curl"), attributes),
    button("Copy as Python", () => copy(asPython(client), "the request as Python"), attributes),
    button("Download recording", () => save(row.number), {
      disabled: client.redacted,
      title: title ?? "A file for `antiphon replay`",
    }),
  );
}

async function save(number) {
  try {
    await download(await request(`/inspector/requests/${number}/recording`), `antiphon-request-${number}.json`);
  } catch (error) {
    announce(explain(error));
  }
}

/** Errors, notices and changes, in words. `showEngine`: shows what the engine got. */
export function remarks(detail, showEngine) {
  return [
    detail.error ? problem(detail.error) : null,
    ...(detail.notices ?? []).map(({ text, explanation }) => remark("warn", "Notice", text, explanation)),
    detail.exact === false
      ? remark("warn", "Not exact", "The events below may differ from what the client got.", detail.inexact_reason)
      : null,
    changeLine(detail.changes, showEngine),
  ];
}

function problem({ code, message, explanation, what_to_do: advice }) {
  return remark("bad", code ?? "Error", message, explanation, advice);
}

function remark(kind, name, ...texts) {
  return make(
    `div.remark.${kind}`,
    {},
    make("strong", {}, name),
    texts.filter(Boolean).map((text) => make("p", {}, text)),
  );
}
