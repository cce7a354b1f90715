// What the store keeps, of every kind. One is opened by its own address, and deleted after a question.

import { confirmDeletion, openDialog } from "./dialogs.js";
import { announce, button, choice, fold, make, show } from "./elements.js";
import { label } from "./cards.js";
import { jsonTree } from "./json_tree.js";
import { moment, several } from "./quantities.js";
import { explain, getJson, query, request } from "./server.js";
import { KINDS } from "./stored_kinds.js";

const ROWS = 50; // rows that are read at once
const MOST = 500; // rows that are shown at once
const TYPING = 250; // ms after the last key

export class StoredView {
  title = "Stored";

  /** @param {string} [kind] one of KINDS */
  constructor(place, context, kind = "responses") {
    this.kind = kind in KINDS ? kind : "responses";
    this.words = KINDS[this.kind];
    this.closed = context.closed;
    this.search = make("input", {
      type: "search",
      placeholder: "Search ( / )",
      "aria-label": `Search stored ${this.words.many}`,
      oninput: () => this.typed(),
    });
    this.list = make("ul.stored");
    this.state = make("p.dim", { role: "status" });
    this.more = button("Show more", () => this.load(this.last), { hidden: true });
    show(
      place,
      make(
        "div.page",
        {},
        make("h1.unseen", {}, "Stored"),
        make(
          "div.toolbar",
          {},
          choice(
            "Kind",
            Object.entries(KINDS).map(([name, { many }]) => [name, capital(many)]),
            this.kind,
            (name) => {
              location.hash = `#/stored/${name}`;
            },
          ),
          this.search,
        ),
        this.state,
        this.list,
        this.more,
      ),
    );
    this.load(null);
  }

  typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.load(null), TYPING);
  }

  async load(after) {
    this.loading?.abort();
    this.loading = new AbortController();
    const { signal } = this.loading;
    try {
      const page = await getJson(
        query(`/inspector/stored/${this.kind}`, { search: this.search.value.trim(), after, limit: ROWS }),
        { signal },
      );
      this.fill(page, after === null);
    } catch (error) {
      if (!signal.aborted) this.fail(error);
    }
  }

  fill({ data, has_more: more, last_id: last }, anew) {
    if (anew) this.list.replaceChildren();
    this.list.append(...data.map((row) => this.row(row)));
    this.last = last;
    this.settle(more);
    if (this.closed) this.list.querySelector(`[data-id="${CSS.escape(this.closed)}"] a`)?.focus();
    this.closed = null;
  }

  settle(more) {
    const shown = this.list.childElementCount;
    const full = shown >= MOST;
    this.more.hidden = !more || full;
    this.state.textContent =
      shown === 0
        ? `No stored ${this.words.many}.`
        : full && more
          ? `${MOST} are shown. Search to find others.`
          : `${several(shown, this.words.one)} shown`;
  }

  fail(error) {
    this.list.replaceChildren();
    this.more.hidden = true;
    this.state.textContent = error.status === 404 ? "This server has no list of what is stored." : explain(error);
  }

  row(row) {
    const remove = this.words.canBeCancelled
      ? this.words.canBeCancelled(row)
        ? button("Cancel", () => this.askToCancel(row.id), { class: "quiet", "aria-label": `Cancel ${row.id}` })
        : make("span")
      : button("Delete", () => this.ask(row.id, node), { class: "quiet", "aria-label": `Delete ${row.id}` });
    const facts = [...this.words.facts(row), row.owner].filter(Boolean).join(" · ");
    const node = make(
      "li",
      { "data-id": row.id },
      make("span.dim.number", {}, moment(row.created_at)),
      make("a.stored-link", { href: `#/stored/${this.kind}/${row.id}` }, row.preview || row.id),
      make("span.dim", {}, facts),
      remove,
    );
    return node;
  }

  ask(id, node) {
    confirmDeletion(
      `Delete this ${this.words.one}?`,
      `${id} is deleted from the store. This cannot be undone.`,
      async () => {
        try {
          await request(`/v1/${this.kind}/${id}`, { method: "DELETE" });
          node.remove();
          announce("Deleted.");
        } catch (error) {
          announce(explain(error));
        }
      },
    );
  }

  askToCancel(id) {
    openDialog(
      `Cancel this ${this.words.one}?`,
      [make("p", {}, `What ${id} runs now comes to its end, and nothing more is begun.`)],
      [
        [
          "Cancel it",
          async () => {
            try {
              await request(`${this.words.path(id)}/cancel`, { method: "POST" });
              announce("Cancelled.");
              this.load(null);
            } catch (error) {
              announce(explain(error));
            }
          },
          { class: "danger" },
        ],
      ],
      "Keep",
    );
  }

  move(step) {
    const links = [...this.list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    links[at === -1 ? 0 : Math.min(Math.max(at + step, 0), links.length - 1)]?.focus();
  }

  find() {
    this.search.focus();
  }

  close() {
    this.loading?.abort();
  }
}

/** Anthropic's API has times as texts. */
const when = (time) => (typeof time === "number" ? moment(time) : time);
const capital = (word) => word[0].toUpperCase() + word.slice(1);

const continued = (id) => make("p", {}, make("a", { href: `#/playground/${id}` }, "Continue in the playground"));

/** One of what is stored. */
export class StoredOneView {
  constructor(place, context, kind, id) {
    this.title = id;
    this.kind = kind in KINDS ? kind : "responses";
    this.place = make("div.page", {}, make("p.dim", {}, "Reading…"));
    show(place, this.place);
    this.load(id);
  }

  async load(id) {
    try {
      const [object, more] = await Promise.all([
        getJson(KINDS[this.kind].path?.(id) ?? `/v1/${this.kind}/${id}`),
        KINDS[this.kind].more?.(id),
      ]);
      this.fill(object, more);
    } catch (error) {
      show(this.place, make("div.empty", {}, make("h1", {}, id), make("p", {}, explain(error))));
    }
  }

  fill(object, more) {
    show(
      this.place,
      make("h1", {}, object.id),
      make("p.dim", {}, [when(object.created_at), object.model, object.status].filter(Boolean).join(" · ")),
      KINDS[this.kind].goesOn ? continued(object.id) : null,
      KINDS[this.kind].parts(object, more),
      fold([label("JSON")], () => jsonTree(object, { open: 2 }), { class: "folded" }),
    );
  }

  back() {
    location.hash = `#/stored/${this.kind}`;
  }

  close() {}
}
