// What the keys have used: a chart of the tokens of each day, and a table of keys and models.

import { choice, make, show } from "./elements.js";
import { count, several } from "./quantities.js";
import { explain, getJson, query } from "./server.js";

const DAY = 86400; // s
const SPANS = [7, 14, 31].map((days) => [days, `${days} days`]);
const MOST_COLOURS = 6; // further keys share the last one
const MOST_ROWS = 500; // a browser takes long for a table of thousands
const SVG = "http://www.w3.org/2000/svg";
const CHART = { width: 720, height: 220, left: 64, bottom: 24, top: 12 };

/** The columns: a heading, and the member of a result. */
const COLUMNS = [
  ["Requests", "num_model_requests"],
  ["Failed", "num_failed_requests"],
  ["Input", "input_tokens"],
  ["Cached", "input_cached_tokens"],
  ["Output", "output_tokens"],
  ["Reasoning", "output_reasoning_tokens"],
  ["Calls", "num_tool_calls"],
];

export class UsageView {
  title = "Usage";

  constructor(place, context) {
    this.remembered = context.remembered;
    this.days = this.remembered.usageDays ?? SPANS[0][0];
    this.body = make("div", { "aria-live": "polite" }, "Asking the gateway…");
    const spans = choice("Time", SPANS, this.days, (days) => this.choose(days));
    show(place, make("div.page", {}, make("div.usage-head", {}, make("h1", {}, "Usage"), spans), this.body));
    this.look();
  }

  choose(days) {
    this.days = this.remembered.usageDays = days;
    this.look();
  }

  async look() {
    const days = this.days;
    const since = (Math.floor(Date.now() / 1000 / DAY) - days + 1) * DAY;
    const asked = { start_time: since, limit: days };
    try {
      const [used, costs] = await Promise.all([
        getJson(query("/v1/organization/usage/completions", { ...asked, group_by: "api_key_id,model" })),
        getJson(query("/v1/organization/costs", { ...asked, group_by: "api_key_id,line_item" })),
      ]);
      if (!this.closed && days === this.days) this.fill(used.data, costs.data);
    } catch (error) {
      if (!this.closed) show(this.body, make("div.empty", {}, explain(error)));
    }
  }

  fill(used, costs) {
    const rows = rowsOf(used);
    if (!rows.length) {
      show(this.body, make("div.empty", {}, "Nothing was used in this time."));
      return;
    }
    const keys = [...new Set(rows.map((row) => row.key))];
    show(this.body, chart(used, keys), legend(keys), table(rows, costsOf(costs)));
  }

  close() {
    this.closed = true;
  }
}

const keyOf = (result) => result.api_key_id ?? "no key";
const tokensOf = (result) => result.input_tokens + result.output_tokens;
const placeOf = (key, model) => JSON.stringify([key, model]);
const colour = (keys, key) => `c${Math.min(keys.indexOf(key), MOST_COLOURS - 1)}`;
const dayOf = (unix) => new Date(unix * 1000).toISOString().slice(0, 10);

/** By key and model, the sums over all days; what is used most comes first. */
function rowsOf(buckets) {
  const rows = new Map();
  for (const result of buckets.flatMap((bucket) => bucket.results)) {
    const place = placeOf(keyOf(result), result.model);
    const row = rows.get(place) ?? { key: keyOf(result), model: result.model, place, sums: COLUMNS.map(() => 0), tokens: 0 };
    row.sums = row.sums.map((sum, at) => sum + result[COLUMNS[at][1]]);
    row.tokens += tokensOf(result);
    rows.set(place, row);
  }
  return [...rows.values()].sort((a, b) => b.tokens - a.tokens);
}

/** By key and model, in words. */
function costsOf(buckets) {
  const costs = new Map();
  for (const { api_key_id: key, line_item: line, amount } of buckets.flatMap((bucket) => bucket.results)) {
    const place = placeOf(key ?? "no key", line.slice(0, line.lastIndexOf(", ")));
    const before = costs.get(place) ?? { value: 0, currency: amount.currency };
    costs.set(place, { ...before, value: before.value + amount.value });
  }
  return costs;
}

// ---- the chart ----

function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function chart(buckets, keys) {
  const totals = buckets.map((bucket) => bucket.results.reduce((sum, result) => sum + tokensOf(result), 0));
  const most = Math.max(1, ...totals);
  const { width, height, left, bottom, top } = CHART;
  const scale = (height - bottom - top) / most;
  const step = (width - left) / buckets.length;
  const lines = [0, most / 2, most].map((value) => {
    const y = height - bottom - value * scale;
    const line = svg("line", { class: "grid", x1: left, x2: width, y1: y, y2: y });
    return svg("g", {}, line, svg("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, count(Math.round(value))));
  });
  const bars = buckets.map((bucket, at) => bar(bucket, totals[at], keys, left + at * step, step, scale));
  const label = `Tokens of each day, by key: ${several(totals.reduce((a, b) => a + b, 0), "token")} in all`;
  const about = { class: "usage-chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label };
  return svg("svg", about, ...lines, ...bars);
}

/** One day: the keys above one another. */
function bar(bucket, total, keys, x, step, scale) {
  const byKey = new Map(keys.map((key) => [key, 0]));
  for (const result of bucket.results) byKey.set(keyOf(result), byKey.get(keyOf(result)) + tokensOf(result));
  let y = CHART.height - CHART.bottom;
  const parts = [...byKey].filter(([, tokens]) => tokens).map(([key, tokens]) => {
    const height = Math.max(1, tokens * scale);
    y -= height;
    return svg("rect", { class: colour(keys, key), x: x + step * 0.1, y, width: step * 0.8, height });
  });
  const day = dayOf(bucket.start_time);
  const words = svg("text", { x: x + step / 2, y: CHART.height - 6, "text-anchor": "middle" }, day.slice(step < 40 ? 8 : 5));
  return svg("g", { class: "day" }, svg("title", {}, `${day}: ${several(total, "token")}`), ...parts, words);
}

function legend(keys) {
  const named = keys.length > MOST_COLOURS ? keys.slice(0, MOST_COLOURS - 1) : keys;
  const lines = named.map((key) => make(`li.${colour(keys, key)}`, {}, key));
  const others = keys.length - named.length;
  if (others) lines.push(make(`li.c${MOST_COLOURS - 1}`, {}, several(others, "other key")));
  return make("ul.usage-legend", { "aria-label": "Keys" }, lines);
}

// ---- the table ----

function table(rows, costs) {
  const withCosts = costs.size > 0;
  const heads = ["Key", "Model", ...COLUMNS.map(([heading]) => heading), ...(withCosts ? ["Cost"] : [])];
  const cost = (row) => {
    const found = costs.get(row.place);
    return make("td.number", {}, found ? `${found.value.toFixed(4)} ${found.currency}` : "");
  };
  const line = (row) =>
    make(
      "tr",
      {},
      make("td", {}, row.key),
      make("td", {}, row.model),
      row.sums.map((sum) => make("td.number", {}, count(sum))),
      withCosts && cost(row),
    );
  const head = heads.map((heading, at) => make(at > 1 ? "th.number" : "th", { scope: "col" }, heading));
  const body = make("tbody", {}, rows.slice(0, MOST_ROWS).map(line));
  return make(
    "div.scroll",
    { tabindex: "0", role: "region", "aria-label": "Keys and models" },
    make("table.plain.usage", {}, make("thead", {}, make("tr", {}, head)), body),
    rows.length > MOST_ROWS && make("p", {}, `${several(rows.length - MOST_ROWS, "row")} of less usage not shown.`),
  );
}
