// The list of requests, live.

import { ConversationRows } from "./conversation_rows.js";
import { confirmDeletion } from "./dialogs.js";
import { announce, button, choice, make, show } from "./elements.js";
import { count } from "./quantities.js";
import { COLUMNS, makeRow, passes, updateRow } from "./request_row.js";
import { address, explain, getJson, query, request } from "./server.js";
import * as session from "./session.js";

const ROWS = 100; // rows of a page
const TYPING = 250; // ms after the last key

const STATUSES = Object.entries({ "": "All", running: "Running", failed: "Failed" });

export class RequestsView {
  title = "Requests";

  constructor(place, { live, remembered, closed }) {
    const fresh = { filter: { status: "", model: "", search: "" }, before: null, unfolded: new Set() };
    this.remembered = remembered.requests ??= fresh;
    this.filter = this.remembered.filter;
    this.before = this.remembered.before;
    this.closed = Number(closed);
    this.missed = 0;
    this.changed = new Map();
    this.shown = new Map(); // by the number of a request: its row, and the node of it
    this.build(place);
    this.unlisten = live.listen({ row: (row) => this.receive(row), reconnected: () => this.load() });
    this.load();
  }

  build(place) {
    this.empty = make("div.empty", { hidden: true });
    this.body = make("tbody", { role: "rowgroup", onclick: openRow });
    this.conversations = new ConversationRows(this.body, this.remembered.unfolded);
    this.table = make(
      "table.requests",
      { role: "table", "aria-label": "Requests, the newest first" },
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, COLUMNS.map(columnHead))),
      this.body,
    );
    show(place, make("h1.unseen", {}, "Requests"), this.toolbar(), this.table, this.empty);
  }

  toolbar() {
    const typed = { value: this.filter.search, oninput: () => this.typed() };
    this.search = make("input", { type: "search", placeholder: "Search ( / )", "aria-label": "Search requests", ...typed });
    const statuses = choice("Status", STATUSES, this.filter.status, (status) => this.apply({ status }));
    const chosen = { onchange: () => this.apply({ model: this.models.value }) };
    this.models = make("select", { "aria-label": "Model", ...chosen }, make("option", { value: "" }, "All models"));
    this.offerModel(this.filter.model);
    this.models.value = this.filter.model;
    this.state = make("span.dim", { role: "status" });
    this.newer = button("Newest", () => this.go(null), { hidden: true });
    this.older = button("Older", () => this.go(this.oldest), { hidden: true });
    const forget = button("Forget all", () => this.forget(), { class: "quiet" });
    const space = make("span.end");
    return make("div.toolbar", {}, this.search, statuses, this.models, this.state, space, this.newer, this.older, forget);
  }

  typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.apply({ search: this.search.value.trim() }), TYPING);
  }

  apply(change) {
    Object.assign(this.filter, change);
    this.go(null);
  }

  go(before) {
    this.before = this.remembered.before = before;
    this.missed = 0;
    this.load();
  }

  async load() {
    this.loading?.abort();
    this.loading = new AbortController();
    const { signal } = this.loading;
    try {
      const page = await getJson(query("/inspector/requests", { ...this.filter, before: this.before, limit: ROWS }), {
        signal,
      });
      this.fill(page);
    } catch (error) {
      if (!signal.aborted) this.state.textContent = explain(error);
    }
  }

  fill({ data, has_more: more }) {
    this.shown = new Map(data.map((row) => [row.number, { row, node: makeRow(row) }]));
    this.body.replaceChildren();
    this.conversations.arrange(this.shown);
    this.oldest = data.at(-1)?.number ?? null;
    this.older.hidden = !more;
    data.forEach((row) => this.offerModel(row.model));
    this.settle();
    this.focusOn(this.closed);
    this.closed = null;
  }

  /** The row of this request; or the newest turn of its conversation, where that is folded. */
  focusOn(number) {
    let node = this.shown.get(number)?.node;
    while (node?.hidden) node = node.previousElementSibling;
    node?.querySelector("a").focus();
  }

  offerModel(model) {
    if (!model || [...this.models.options].some((option) => option.value === model)) return;
    this.models.append(make("option", { value: model }, model));
  }

  /** Many rows may change between two pictures: they are drawn together. */
  receive(row) {
    if (this.changed.size === 0) requestAnimationFrame(() => this.drawChanged());
    this.changed.set(row.number, row);
  }

  drawChanged() {
    for (const row of [...this.changed.values()].sort((one, other) => one.number - other.number)) this.draw(row);
    this.changed.clear();
    this.conversations.arrange(this.shown);
    this.settle();
  }

  draw(row) {
    const known = this.shown.get(row.number);
    const belongs = passes(row, this.filter);
    this.offerModel(row.model);
    if (known && belongs) {
      known.row = row;
      updateRow(known.node, row);
    } else if (known) this.drop(row.number);
    else if (belongs && this.before === null) this.add(row);
    else if (belongs && row.number > this.oldest) this.missed += 1;
  }

  add(row) {
    this.shown.set(row.number, { row, node: makeRow(row) });
    if (this.shown.size > ROWS) {
      this.drop(Math.min(...this.shown.keys()));
      this.oldest = Math.min(...this.shown.keys());
      this.older.hidden = false;
    }
  }

  drop(number) {
    this.shown.get(number)?.node.remove();
    this.shown.delete(number);
  }

  settle() {
    const none = this.shown.size === 0;
    this.table.hidden = none;
    this.empty.hidden = !none;
    if (none) show(this.empty, Object.values(this.filter).some(Boolean) ? "No request passes the filter." : firstSteps());
    this.newer.hidden = this.before === null;
    this.newer.textContent = this.missed ? `Newest (${count(this.missed)} more)` : "Newest";
    const state = none ? "" : `${count(this.shown.size)} shown`;
    // A screen reader reads out every change.
    if (this.state.textContent !== state) this.state.textContent = state;
  }

  forget() {
    confirmDeletion("Forget all recorded requests?", "The rows and their recordings go. Stored responses stay.", async () => {
      try {
        await request("/inspector/requests", { method: "DELETE" });
        this.go(null);
      } catch (error) {
        announce(explain(error));
      }
    });
  }

  // ---- keyboard ----

  move(step) {
    const links = [...this.body.querySelectorAll("tr:not([hidden]) a")];
    const at = links.indexOf(document.activeElement);
    links[at === -1 ? 0 : Math.min(Math.max(at + step, 0), links.length - 1)]?.focus();
  }

  find() {
    this.search.focus();
    this.search.select();
  }

  close() {
    this.loading?.abort();
    this.unlisten();
  }
}

function columnHead([name, title, , meaning]) {
  return make("th", { role: "columnheader", scope: "col", "data-column": name, title: meaning }, title);
}

/** The whole row opens the request; the link in it is what the keyboard and screen readers use. */
function openRow(event) {
  if (event.target.closest("a, button") || getSelection().toString()) return;
  event.target.closest("tr")?.querySelector("a").click();
}

function firstSteps() {
  const body = '{"model": "default", "input": "Hello"}';
  const key = session.key() ? `  -H "Authorization: Bearer $OPENAI_API_KEY" \\\n` : "";
  const sample = `curl ${address("/v1/responses")} \\
${key}  -H 'Content-Type: application/json' \\
  -d '${body}'`;
  return [
    make("h2", {}, "No request yet"),
    make(
      "p",
      {},
      "Requests appear here while they run. Try the ",
      make("a", { href: "#/playground" }, "playground"),
      ", or send one:",
    ),
    make("pre", {}, sample),
  ];
}
