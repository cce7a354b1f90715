// The kinds of things that are stored: the words for each, what a row says of one, and what is shown of one that is opened.

import { fields, label } from "./cards.js";
import { download } from "./clipboard.js";
import { announce, button, make } from "./elements.js";
import { itemCard } from "./items.js";
import { bytes, count, moment, several } from "./quantities.js";
import { explain, getJson, query, request } from "./server.js";

const MOST = 100; // parts of one that are shown

/** What is listed with the thing itself: items, or files. */
const listed = (path, order) => async (id) => getJson(query(path(id), { order, limit: MOST }));

/**
 * name: as the addresses have it. one, many: in words. facts: of a row in the list. more: reads what belongs to an opened one.
 * parts: shows an opened one. goesOn: the playground can go on from it.
 */
export const KINDS = {
  responses: {
    one: "response",
    many: "responses",
    goesOn: true,
    facts: ({ model, status }) => [model, status],
    more: listed((id) => `/v1/responses/${id}/input_items`, "asc"),
    parts: (object, page) => [items(page), (object.output ?? []).map((item) => itemCard(item, "output"))],
  },
  conversations: {
    one: "conversation",
    many: "conversations",
    goesOn: true,
    facts: ({ items: number }) => [known(number) ? several(number, "item") : null],
    more: listed((id) => `/v1/conversations/${id}/items`, "asc"),
    parts: (object, page) => items(page),
  },
  files: {
    one: "file",
    many: "files",
    facts: ({ purpose, bytes: size, expires_at: expiry }) => [purpose, bytes(size), expires(expiry)],
    parts: (object) => [
      fields(object, ["filename", "bytes", "purpose", "status", "expires_at"]),
      downloadButton(`/v1/files/${object.id}/content`, object.filename),
    ],
  },
  vector_stores: {
    one: "vector store",
    many: "vector stores",
    facts: ({ status, file_counts: files, bytes: size, expires_at: expiry }) => [
      status,
      fileCounts(files),
      bytes(size),
      expires(expiry),
    ],
    more: listed((id) => `/v1/vector_stores/${id}/files`, "desc"),
    parts: (object, page) => [
      fields(object, ["name", "file_counts", "usage_bytes", "metadata", "expires_after", "expires_at", "last_active_at"]),
      table("File", ["Status", "Size", "Attributes", "What is wrong"], page, (file) => [
        make("a", { href: `#/stored/files/${file.id}` }, file.id),
        file.status,
        bytes(file.usage_bytes),
        attributes(file.attributes),
        file.last_error ? `${file.last_error.code}: ${file.last_error.message}` : "",
      ]),
    ],
  },
  batches: {
    one: "batch",
    many: "batches",
    path: (id) => (id.startsWith("msgbatch_") ? `/v1/messages/batches/${id}` : `/v1/batches/${id}`),
    facts: ({ status, total, completed, failed }) => [
      status,
      total ? `${count(completed + failed)} of ${several(total, "request")}` : null,
      failed ? `${count(failed)} failed` : null,
    ],
    canBeCancelled: ({ can_be_cancelled: can }) => can,
    parts: (object) => [
      progress(object.request_counts),
      fields(object, ["endpoint", "processing_status", "request_counts", "usage", "metadata", "errors", "expires_at"]),
      files(object),
    ],
  },
  containers: {
    one: "container",
    many: "containers",
    facts: ({ status, files, bytes: size, memory_limit: memory, expires_at: expiry }) => [
      status,
      several(files, "file"),
      bytes(size),
      `${memory} memory`,
      expires(expiry),
    ],
    more: listed((id) => `/v1/containers/${id}/files`, "desc"),
    parts: (object, page) => [
      fields(object, ["name", "status", "memory_limit", "network_policy", "expires_after", "last_active_at"]),
      table("Path", ["Size", "Made by", ""], page, (file) => [
        file.path,
        bytes(file.bytes),
        file.source,
        downloadButton(`/v1/containers/${object.id}/files/${file.id}/content`, file.path.split("/").at(-1)),
      ]),
    ],
  },
};

const known = (value) => value !== null && value !== undefined;
const expires = (unix) => (known(unix) ? `expires ${moment(unix)}` : null);

function items({ data, has_more: more }) {
  return [data.map((item) => itemCard(item)), more ? make("p.dim", {}, `These are the first ${MOST} items.`) : null];
}

/** "3 files, 1 failed, 1 in progress" */
function fileCounts({ total, failed, in_progress: running, cancelled }) {
  const others = { failed, "in progress": running, cancelled };
  const rest = Object.entries(others).filter(([, number]) => number);
  return [several(total, "file"), ...rest.map(([word, number]) => `${count(number)} ${word}`)].join(", ");
}

const attributes = (object) =>
  Object.entries(object ?? {})
    .map(([name, value]) => `${name}: ${value}`)
    .join(", ");

/** How many of its requests are done. */
function progress({ total, completed, failed }) {
  if (!total) return null;
  const done = completed + failed;
  const bar = make("progress", { max: total, value: done, "aria-label": "Requests that are done" });
  return make("p", {}, bar, ` ${count(done)} of ${count(total)}`);
}

/** Links to what came in and out. */
function files(object) {
  const named = { Input: object.input_file_id, Output: object.output_file_id, Errors: object.error_file_id };
  const links = Object.entries(named)
    .filter(([, id]) => id)
    .map(([name, id]) => make("li", {}, make("a", { href: `#/stored/files/${id}` }, `${name}: ${id}`)));
  if (object.results_url) {
    const save = downloadButton(`/v1/messages/batches/${object.id}/results`, `${object.id}.jsonl`);
    links.push(make("li", {}, save));
  }
  return links.length ? [make("h2", {}, label("Files")), make("ul", {}, links)] : null;
}

function table(first, others, { data, has_more: more }, cells) {
  if (!data.length) return make("p.dim", {}, "It has no files.");
  const head = [first, ...others].map((title) => make("th", { scope: "col" }, title));
  const rows = data.map((row) => make("tr", {}, cells(row).map((cell) => make("td", {}, cell))));
  const made = make("table.plain", {}, make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows));
  return [
    make("h2", {}, label("Files")),
    make("div.scroll", {}, made),
    more ? make("p.dim", {}, `These are the newest ${MOST} files.`) : null,
  ];
}

function downloadButton(path, name) {
  const save = async () => {
    try {
      await download(await request(path), name);
    } catch (error) {
      announce(explain(error));
    }
  };
  return button("Download", save, { "aria-label": `Download ${name}` });
}
