// The third pane of an opened request: the events, and the raw chunk that each came from.

import { button, choice, make, show } from "./elements.js";
import { jsonTree } from "./json_tree.js";
import { longText } from "./long_text.js";
import { count, host, several } from "./quantities.js";
import { chunkGist, entriesByChunk, gist, grouped, shortType } from "./timeline.js";

const ROWS = 300; // rows that are added at once
const GIST = 120; // characters

export class TimelinePane {
  /** @param {object} detail what the server says of one request */
  constructor(detail) {
    this.entries = detail.timeline.map((entry) => (entry.kind === "ask" ? describeAsk(entry, detail.asks) : entry));
    this.chunks = detail.chunks;
    this.groups = grouped(this.entries);
    this.byChunk = entriesByChunk(this.entries);
    this.opened = new Set();
    this.limit = ROWS;
    this.form = "events";
    this.list = make("ol.events", { "aria-label": "Events" });
    this.chosen = make("div.chosen", { role: "region", "aria-label": "The chosen event", tabindex: "0" });
    this.forms = choice(
      "List",
      [
        ["events", `Events ${count(this.entries.length)}`],
        ["chunks", `Chunks ${count(this.chunks.length)}`],
      ],
      "events",
      (form) => this.showList(form),
    );
    this.node = make(
      "div.timeline",
      {},
      make("div.pane-tools", {}, this.forms),
      make("div.event-list", { role: "region", "aria-label": "List of events", tabindex: "0" }, this.list),
      this.chosen,
    );
    this.draw();
    this.choose(null);
  }

  showList(form) {
    this.form = form;
    this.limit = ROWS;
    for (const each of this.forms.children) each.setAttribute("aria-pressed", String(each.dataset.value === form));
    this.draw();
  }

  draw() {
    const rows =
      this.form === "events" ? this.eventRows() : this.chunks.map((chunk, index) => () => this.chunkRow(chunk, index));
    show(
      this.list,
      rows.slice(0, this.limit).map((row) => row()),
    );
    if (rows.length > this.limit)
      this.list.append(
        make(
          "li",
          {},
          button(`Show more of ${count(rows.length)}`, () => this.extend(), { class: "inline more" }),
        ),
      );
  }

  extend() {
    this.limit += ROWS;
    this.draw();
  }

  /** Rows as functions: only those in sight are made. */
  eventRows() {
    return this.groups.flatMap((group) => {
      if (group.first === group.last) return [() => this.entryRow(group.first)];
      if (!this.opened.has(group)) return [() => this.groupRow(group, false)];
      const inner = Array.from(
        { length: group.last - group.first + 1 },
        (_, step) => () => this.entryRow(group.first + step, true),
      );
      return [() => this.groupRow(group, true), ...inner];
    });
  }

  entryRow(index, inner = false) {
    const entry = this.entries[index];
    return this.row(
      `event-${index}`,
      { kind: entry.kind, type: shortType(entry), inner },
      entry.at,
      shortType(entry),
      gist(this.entries, { first: index, last: index }),
      () => this.choose({ entry: index }),
    );
  }

  groupRow(group, open) {
    const entry = this.entries[group.first];
    const name = `${open ? "▾" : "▸"} ${shortType(entry)} ×${count(group.last - group.first + 1)}`;
    const made = this.row(
      `group-${group.first}`,
      { kind: entry.kind, type: shortType(entry) },
      entry.at,
      name,
      open ? "" : gist(this.entries, group),
      () => this.toggle(group),
    );
    made.firstChild.setAttribute("aria-expanded", String(open));
    return made;
  }

  chunkRow(chunk, index) {
    const made = this.byChunk.get(index)?.length ?? 0;
    return this.row(
      `chunk-${index}`,
      { kind: "chunk" },
      null,
      `${index + 1} → ${several(made, "event")}`,
      chunkGist(chunk.text),
      () => this.choose({ chunk: index }),
    );
  }

  row(name, { kind, type, inner }, at, title, text, onclick) {
    const current = name === this.current;
    return make(
      "li",
      {},
      button(
        [
          make("span.event-at.number", {}, at === null || at === undefined ? "" : at.toFixed(3)),
          make("span.event-type", {}, title),
          make("span.event-gist", {}, text.slice(0, GIST)),
        ],
        onclick,
        {
          class: inner ? "event inner" : "event",
          "data-row": name,
          "data-kind": kind,
          "data-type": type,
          "aria-current": current ? "true" : null,
        },
      ),
    );
  }

  toggle(group) {
    if (!this.opened.delete(group)) this.opened.add(group);
    this.draw();
    this.mark(`group-${group.first}`, { focus: true });
  }

  /** @param {{entry?: number, chunk?: number}|null} chosen */
  choose(chosen) {
    if (chosen === null) {
      show(this.chosen, make("p.dim", {}, "Choose an event to see it whole, with the raw chunk that it came from."));
      return;
    }
    this.mark(chosen.entry === undefined ? `chunk-${chosen.chunk}` : `event-${chosen.entry}`);
    show(this.chosen, chosen.entry === undefined ? this.chunkParts(chosen.chunk) : this.entryParts(chosen.entry));
    this.chosen.scrollTop = 0;
  }

  mark(name, { focus = false } = {}) {
    this.current = name;
    this.list.querySelector("[aria-current]")?.removeAttribute("aria-current");
    const node = this.list.querySelector(`[data-row="${name}"]`);
    node?.setAttribute("aria-current", "true");
    node?.scrollIntoView({ block: "nearest" });
    if (focus) node?.focus();
  }

  entryParts(index) {
    const entry = this.entries[index];
    return [
      make("h3", {}, entry.type ?? entry.kind),
      entry.note ? make("p", {}, entry.note) : null,
      entry.kind === "event" ? this.originParts(entry.chunk) : null,
      entry.event ? jsonTree(entry.event, { open: 2 }) : null,
    ];
  }

  /** Where an event came from. */
  originParts(index) {
    const chunk = this.chunks[index];
    if (!chunk) return [make("p.dim", {}, "No chunk of the engine led to it: the gateway made it.")];
    const link = `chunk ${index + 1}, which led to ${several(this.byChunk.get(index).length, "event")}`;
    return [
      make(
        "p.dim",
        {},
        "From ",
        button(link, () => this.openChunk(index), { class: "inline" }),
      ),
      make("div.chunk", {}, longText(chunk.text.trimEnd())),
    ];
  }

  chunkParts(index) {
    const events = this.byChunk.get(index) ?? [];
    const links = events.map((event) =>
      button(shortType(this.entries[event]), () => this.openEntry(event), { class: "inline" }),
    );
    const heading = events.length ? "The events that came from it" : "No event came from it.";
    return [
      make("h3", {}, `Chunk ${index + 1}`),
      make("div.chunk", {}, longText(this.chunks[index].text.trimEnd())),
      make("h3", {}, heading),
      make(
        "ul.links",
        {},
        links.map((link) => make("li", {}, link)),
      ),
    ];
  }

  openChunk(index) {
    this.reveal("chunks", index);
    this.choose({ chunk: index });
  }

  openEntry(index) {
    const group = this.groups.find(({ first, last }) => first <= index && index <= last);
    if (group.first !== group.last) this.opened.add(group);
    this.reveal("events", index + this.groups.length);
    this.choose({ entry: index });
  }

  reveal(form, row) {
    this.showList(form);
    if (row >= this.limit) {
      this.limit = row + ROWS;
      this.draw();
    }
  }

  /** The next row, by the keyboard. */
  move(step) {
    const rows = [...this.list.querySelectorAll(".event")];
    const at = rows.findIndex((row) => row.dataset.row === this.current);
    const next = rows[at === -1 ? 0 : Math.min(Math.max(at + step, 0), rows.length - 1)];
    if (!next) return;
    const [kind, index] = next.dataset.row.split("-");
    if (kind === "group") this.mark(next.dataset.row);
    else this.choose(kind === "event" ? { entry: Number(index) } : { chunk: Number(index) });
    next.focus();
  }
}

/** Which engine was asked, and what for, unless the server has said it. */
function describeAsk(entry, asks) {
  const ask = asks[entry.ask];
  return ask && !entry.note ? { ...entry, note: [host(ask.engine), ask.purpose].filter(Boolean).join(", ") } : entry;
}
