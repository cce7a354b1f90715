// The engines: health, load, models, and what is known of each.

import { fold, make, show } from "./elements.js";
import { label } from "./cards.js";
import { count, host, seconds, several } from "./quantities.js";
import { explain, getJson } from "./server.js";

const PAUSE = 3000; // ms between two looks

/** What the source of a fact means. */
const SOURCES = {
  dialect: "known of this kind of engine",
  probed: "found by a probe",
  template: "read in the chat template",
  learned: "learned from an answer",
  setting: "comes with a model that Antiphon knows by name",
  assumed: "assumed until a probe has ended",
};

export class EnginesView {
  title = "Engines";

  constructor(place) {
    this.place = place;
    this.shown = "";
    show(place, make("div.empty", {}, "Asking the gateway…"));
    this.look();
  }

  async look() {
    try {
      if (!document.hidden) this.fill(await getJson("/inspector/engines"));
    } catch (error) {
      show(this.place, make("div.empty", {}, make("h1", {}, "Engines"), make("p", {}, explain(error))));
      this.shown = "";
    }
    if (!this.closed) this.timer = setTimeout(() => this.look(), PAUSE);
  }

  fill(status) {
    const now = JSON.stringify(status);
    if (now === this.shown || this.closed) return;
    this.shown = now;
    const open = new Set([...this.place.querySelectorAll("details[open][data-key]")].map((node) => node.dataset.key));
    show(
      this.place,
      make(
        "div.page",
        {},
        make("h1.unseen", {}, "Engines"),
        gateway(status.gateway),
        status.engines.length
          ? status.engines.map((engine) => engineSection(engine, open))
          : make("div.empty", {}, "No engine is configured, or none was found yet."),
        responses(status.running),
      ),
    );
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
  }
}

function gateway(about) {
  const facts = [
    `Antiphon ${about.version}`,
    about.url,
    about.pid ? `process ${about.pid}` : null,
    about.store ? `store: ${about.store}` : null,
  ];
  return make("p.dim", {}, mark(about.ready, null), " ", facts.filter(Boolean).join(" · "));
}

const mark = (ready, why) =>
  make("span.status", { "data-status": ready ? "ready" : "unavailable" }, ready ? "ready" : (why ?? "not ready"));

/** The requests of this gateway, and what the engine says of itself, with those of others. */
function load(engine) {
  const own = `${count(engine.running ?? 0)} running, ${count(engine.waiting ?? 0)} waiting`;
  const reported = engine.reported;
  if (!reported) return own;
  const cache = reported.cache_usage === null ? "" : `, ${Math.round(100 * reported.cache_usage)} % of its cache`;
  return `${own} (by its own count ${count(reported.running)} running, ${count(reported.waiting)} waiting${cache})`;
}

function engineSection(engine, open) {
  const kind = [engine.dialect, engine.version, engine.embedded ? "(embedded)" : null].filter(Boolean).join(" ");
  return make(
    "section.engine",
    {},
    make(
      "header",
      {},
      make("h2", {}, host(engine.url)),
      mark(engine.ready && !engine.unhealthy, engine.why_not ?? (engine.unhealthy ? `not healthy: ${engine.unhealthy}` : null)),
      make("span.dim", {}, kind),
      make("span.load", {}, load(engine)),
    ),
    engine.models.length
      ? engine.models.map((model) => modelPart(engine, model, open))
      : make(
          "p.dim",
          {},
          engine.any_model ? "It lists no models, and serves any that a request names." : "It lists no models.",
        ),
  );
}

/** Name → its value in words; those that are not known are left out. */
const ABOUT = [
  ["context", (model) => (model.window ? `${count(model.window)} tokens` : null)],
  ["slots", (model) => (model.slots ? count(model.slots) : null)],
  ["parameters", (model) => (model.parameters ? `${(model.parameters / 1e9).toPrecision(2)} billion` : null)],
  ["images", (model) => (typeof model.vision === "boolean" ? (model.vision ? "yes" : "no") : null)],
  ["loaded", (model) => (model.loaded === false ? "no" : null)],
  ["help", (model) => model.help?.reason ?? null],
];

function modelPart(engine, model, open) {
  const about = ABOUT.map(([name, value]) => [name, value(model)]).filter(([, value]) => value !== null);
  const key = `${engine.url} ${model.id}`;
  const facts = model.facts ?? [];
  return make(
    "article.model",
    {},
    make("h3", {}, model.id),
    make(
      "dl.numbers",
      {},
      about.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))),
    ),
    facts.length
      ? fold([label(several(facts.length, "fact"))], () => factTable(facts), {
          class: "folded",
          "data-key": key,
          open: open.has(key),
        })
      : null,
  );
}

function factTable(facts) {
  const heads = ["Fact", "What it means", "Value", "Source"].map((title) => make("th", { scope: "col" }, title));
  const rows = facts.map(({ name, value, source, meaning }) =>
    make(
      "tr",
      {},
      make("td", {}, make("code", {}, name)),
      make("td", {}, meaning ?? ""),
      make("td", {}, make("code", {}, JSON.stringify(value))),
      make("td", { title: SOURCES[source] }, source),
    ),
  );
  return make(
    "div.scroll",
    { tabindex: "0", role: "region", "aria-label": "Facts" },
    make("table.plain", {}, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, rows)),
  );
}

function responses(running = []) {
  if (!running.length) return make("p.dim", {}, "No response is running.");
  const heads = ["State", "Since", "Model", "Engine", "Response"].map((title) => make("th", { scope: "col" }, title));
  const rows = running.map((each) =>
    make(
      "tr",
      {},
      [each.state, seconds(each.seconds), each.model, host(each.engine), each.id].map((text) => make("td", {}, text ?? "–")),
    ),
  );
  return make(
    "section.engine",
    {},
    make("header", {}, make("h2", {}, "Running responses")),
    make(
      "div.scroll",
      { tabindex: "0", role: "region", "aria-label": "Running responses" },
      make("table.plain", {}, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, rows)),
    ),
  );
}
