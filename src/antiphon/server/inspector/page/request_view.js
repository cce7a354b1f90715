// One request, opened: the conversation, or three panes side by side.

import { clientPane } from "./client_pane.js";
import { conversation } from "./conversation.js";
import { button, choice, make, show } from "./elements.js";
import { enginePane } from "./engine_pane.js";
import { actions, numbers, remarks } from "./request_head.js";
import { explain, getJson } from "./server.js";
import { TimelinePane } from "./timeline_pane.js";

const PANES = [
  ["client", "Client sent"],
  ["engine", "Engine got"],
  ["events", "Events"],
];
const CONVERSATION = "conversation";
// Where all three fit, one button shows them.
const ALL = "panes";

export class RequestView {
  constructor(place, { live, remembered }, number) {
    this.title = `Request ${number}`;
    this.number = number;
    this.place = place;
    this.head = make("div.request-head", {}, make("h1", {}, `#${number}`), make("span.dim", {}, "Reading it…"));
    this.notes = make("div.remarks");
    this.remembered = remembered;
    this.talk = make("div.request-talk", { role: "region", "aria-label": "Conversation", tabindex: "0" });
    this.panes = make("div.panes", { "data-pane": "engine" });
    show(
      place,
      make(
        "div.request",
        {},
        make("div.request-top", {}, this.head, make("div.request-tools")),
        this.notes,
        this.switcher(),
        this.talk,
        this.panes,
      ),
    );
    this.choose(remembered.requestForm ?? CONVERSATION);
    this.tools = place.querySelector(".request-tools");
    this.unlisten = live.listen({ row: (row) => this.receive(row), reconnected: () => this.load() });
    this.load();
  }

  /** On small screens, only one pane fits. */
  switcher() {
    const chosen = this.remembered.requestForm ?? CONVERSATION;
    const options = [[CONVERSATION, "Conversation"], [ALL, "Panes"], ...PANES];
    this.switch = choice("Form of the request", options, chosen, (name) => this.choose(name));
    this.switch.classList.add("form-switch");
    return this.switch;
  }

  choose(name) {
    this.remembered.requestForm = name;
    this.talk.hidden = name !== CONVERSATION;
    this.panes.hidden = name === CONVERSATION;
    if (name !== CONVERSATION && name !== ALL) this.panes.dataset.pane = name;
  }

  /** Where only one pane fits, this one. */
  showPane(name) {
    const fits = [ALL, name].map((each) => this.switch.querySelector(`[data-value="${each}"]`));
    fits.find((each) => each.offsetParent !== null)?.click();
  }

  async load() {
    this.loading?.abort();
    this.loading = new AbortController();
    const { signal } = this.loading;
    try {
      this.fill(await getJson(`/inspector/requests/${this.number}`, { signal }));
    } catch (error) {
      if (!signal.aborted) this.fail(error);
    }
  }

  fail(error) {
    const gone = error.status === 404 ? "It may have been forgotten: only the newest requests are kept." : "";
    show(
      this.place,
      make(
        "div.empty",
        {},
        make("h1", {}, `Request ${this.number}`),
        make("p", {}, explain(error)),
        make("p", {}, gone),
        make("p", {}, make("a", { href: "#/requests" }, "All requests")),
      ),
    );
  }

  fill(detail) {
    const scrolled = [...this.panes.querySelectorAll(".pane-body")].map((body) => body.scrollTop);
    this.row = detail.row;
    show(this.head, numbers(detail.row));
    show(this.tools, actions(detail), detail.row.status === "running" ? button("Refresh", () => this.load()) : null);
    show(
      this.notes,
      remarks(detail, () => this.showPane("engine")),
    );
    show(this.talk, conversation(detail));
    this.timeline = new TimelinePane(detail);
    const contents = { client: clientPane(detail), engine: enginePane(detail), events: [this.timeline.node] };
    show(
      this.panes,
      PANES.map(([name, title]) => pane(name, title, contents[name])),
    );
    this.panes.querySelectorAll(".pane-body").forEach((body, index) => {
      body.scrollTop = scrolled[index] ?? 0;
    });
  }

  /** The numbers follow the stream. The panes are read again at the end, since each reading replays the request. */
  receive(row) {
    if (row.number !== this.number || !this.row) return;
    const ended = this.row.status === "running" && row.status !== "running";
    this.row = row;
    show(this.head, numbers(row));
    if (ended) this.load();
  }

  move(step) {
    this.showPane("events");
    this.timeline?.move(step);
  }

  back() {
    location.hash = "#/requests";
  }

  close() {
    this.loading?.abort();
    this.unlisten();
  }
}

function pane(name, title, contents) {
  const id = `pane-${name}`;
  const body =
    name === "events"
      ? make("div.pane-body.fixed", {}, contents)
      : make("div.pane-body", { role: "region", "aria-labelledby": id, tabindex: "0" }, contents);
  return make("section.pane", { "data-name": name }, make("h2", { id }, title), body);
}
