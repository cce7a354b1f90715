// The page: which view is shown, who is signed in, light or dark.

import { announce, make, show } from "./elements.js";
import { EnginesView } from "./engines_view.js";
import { listenToKeys, showKeys } from "./keyboard.js";
import { LiveRows } from "./live_rows.js";
import { PlaygroundView } from "./playground_view.js";
import { bytes, count } from "./quantities.js";
import { RequestView } from "./request_view.js";
import { RequestsView } from "./requests_view.js";
import { explain, getJson } from "./server.js";
import * as session from "./session.js";
import { SignInView } from "./sign_in_view.js";
import { StoredOneView, StoredView } from "./stored_view.js";
import { UsageView } from "./usage_view.js";

/** name, title, and the view for the rest of its address. `kept`: it goes on while another one is shown. */
const VIEWS = [
  {
    name: "requests",
    title: "Requests",
    open: (place, context, number) =>
      number ? new RequestView(place, context, Number(number)) : new RequestsView(place, context),
  },
  { name: "playground", title: "Playground", kept: true, open: (place, context) => new PlaygroundView(place, context) },
  { name: "engines", title: "Engines", open: (place) => new EnginesView(place) },
  {
    name: "stored",
    title: "Stored",
    open: (place, context, kind, id) =>
      id ? new StoredOneView(place, context, kind, id) : new StoredView(place, context, kind),
  },
  { name: "usage", title: "Usage", open: (place, context) => new UsageView(place, context) },
];

const STATES = { live: "live", connecting: "connecting…" };
const byId = (id) => document.getElementById(id);

class App {
  constructor() {
    this.view = null;
    this.kept = new Map();
    this.remembered = {}; // what views want to find again: filters, pages
    this.live = new LiveRows((state) => this.showState(state));
    this.buildBar();
    addEventListener("hashchange", () => this.navigate());
    addEventListener("signedout", () => this.askForKey());
    const views = VIEWS.map(({ name }, index) => [
      String(index + 1),
      () => {
        location.hash = `#/${name}`;
      },
    ]);
    listenToKeys(() => this.view ?? {}, { ...Object.fromEntries(views), t: () => this.switchTheme() });
    this.start();
  }

  buildBar() {
    show(
      byId("views"),
      VIEWS.map(({ name, title }) => make("a", { href: `#/${name}`, "data-view": name }, title)),
    );
    byId("theme").addEventListener("click", () => this.switchTheme());
    byId("help").addEventListener("click", showKeys);
    byId("sign-out").addEventListener("click", () => this.signOut());
    this.showTheme();
  }

  // ---- who is signed in ----

  /** @returns {Promise<boolean>} whether the gateway lets us in */
  async start() {
    try {
      const status = await getJson("/inspector/status");
      this.enter(status);
      return true;
    } catch (error) {
      if (error.status !== 401)
        show(byId("view"), make("div.empty", {}, make("h1", {}, "Antiphon"), make("p", {}, explain(error))));
      return false;
    }
  }

  enter(status) {
    byId("sign-out").hidden = !status.keys;
    byId("recording").textContent = recordingWords(status);
    this.inside = true;
    this.live.start();
    this.route();
  }

  askForKey() {
    this.leave();
    if (this.view instanceof SignInView) return;
    this.replace((place) => new SignInView(place, () => this.start()));
  }

  leave() {
    this.inside = false;
    this.live.stop();
    this.showState(null);
    byId("recording").textContent = "";
    byId("sign-out").hidden = true;
    for (const { view } of this.kept.values()) view.close();
    this.kept.clear();
    this.remembered = {};
  }

  signOut() {
    session.forgetKey();
    this.askForKey();
    announce("Signed out. The key is forgotten.");
  }

  /** How much is recorded changes with every request. */
  async updateRecording() {
    try {
      byId("recording").textContent = recordingWords(await getJson("/inspector/status"));
    } catch {
      // The view says what is wrong.
    }
  }

  // ---- which view is shown ----

  navigate() {
    if (!this.inside) return;
    this.route();
    this.updateRecording();
  }

  route() {
    const [name, ...rest] = location.hash.replace(/^#\//, "").split("/");
    const found = VIEWS.find((view) => view.name === name) ?? VIEWS[0];
    const from = this.address;
    this.address = [found.name, ...rest];
    for (const link of byId("views").children) {
      if (link.dataset.view === found.name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    const context = { live: this.live, remembered: this.remembered, closed: this.closedOne(from) };
    this.replace((place) => found.open(place, context, ...rest), found.kept ? found.name : null);
    if (found.kept) this.view.goOn(...rest);
  }

  /** @param {string|null} [kept] the name under which the view is kept */
  replace(open, kept = null) {
    if (this.view && !this.viewIsKept()) this.view.close();
    const place = make("div.view");
    const known = this.kept.get(kept) ?? { place, view: null };
    show(byId("view"), known.place);
    known.view ??= open(place);
    this.view = known.view;
    if (kept) this.kept.set(kept, known);
    document.title = `${this.view.title} · Antiphon`;
    if (!byId("view").contains(document.activeElement)) byId("view").focus({ preventScroll: true });
  }

  viewIsKept() {
    return [...this.kept.values()].some(({ view }) => view === this.view);
  }

  /** What was open in this view a moment ago: the focus goes back to its row. */
  closedOne(from) {
    const [name] = this.address;
    return from?.[0] === name && from.length > this.address.length ? from.at(-1) : null;
  }

  // ---- the bar ----

  showState(state) {
    const place = byId("live");
    place.dataset.state = state ?? "";
    place.textContent = STATES[state] ?? "";
  }

  switchTheme() {
    session.keepTheme(isDark() ? "light" : "dark");
    this.showTheme();
  }

  showTheme() {
    const chosen = session.theme();
    if (chosen) document.documentElement.dataset.theme = chosen;
    const next = isDark() ? "Light" : "Dark";
    byId("theme").textContent = next;
    byId("theme").setAttribute("aria-label", `${next} theme`);
  }
}

const isDark = () => (session.theme() ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

function recordingWords({ recording, owner, version }) {
  const who = owner ? `${owner} · ` : "";
  if (!recording.on) return `${who}not recording`;
  const bodies = recording.bodies ? "" : ", without texts";
  const leftOut = recording.left_out ? `, ${count(recording.left_out)} requests left out: too many a second` : "";
  return `${who}${version} · ${bytes(recording.bytes)} of ${bytes(recording.max_bytes)} recorded${bodies}${leftOut}`;
}

new App();
