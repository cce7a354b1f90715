// An answer while it streams: cards that grow with the events.

import { aside, card, label } from "./cards.js";
import { spokenItems } from "./conversation.js";
import { fold, make, show } from "./elements.js";
import { itemCard } from "./items.js";
import { count, percent, rate, seconds } from "./quantities.js";

/** Item type → what shows it while it grows. Others are shown when they are done. */
const GROWING = {
  message: () => growing(card("assistant", [label("assistant")])),
  reasoning: () => growingThought(),
  function_call: (item) => growing(card("call", [label("call"), item.name, aside(item.call_id)])),
  custom_tool_call: (item) => growing(card("call", [label("call"), item.name, aside(item.call_id)])),
  // The gateway runs these, which takes its time.
  mcp_call: (item) => growing(card("call", [label("mcp call"), item.server_label, item.name, aside("running…")])),
  web_search_call: () => growing(card("call", [label("web search"), aside("running…")])),
  file_search_call: () => growing(card("call", [label("file search"), aside("running…")])),
  code_interpreter_call: () => growing(card("call", [label("code interpreter"), aside("running…")])),
  shell_call: () => growing(card("call", [label("shell"), aside("running…")])),
  image_generation_call: () => growing(card("call", [label("image"), aside("running…")])),
};

function growing(node) {
  const text = document.createTextNode("");
  node.append(make("pre.text", {}, text));
  return { node, text };
}

function growingThought() {
  const text = document.createTextNode("");
  const thought = fold([label("thinking…")], () => make("pre.text", {}, text), { open: true, class: "folded" });
  return { node: card("thought", [label("reasoning")], thought), text };
}

/** Item type → its form when it is done, where that differs. */
const FINISHED = {
  // With what it cites as links.
  message: (item) => (item.content?.some(({ annotations }) => annotations?.length) ? spokenItems([item])[0] : null),
  reasoning: (item) => itemCard(item),
  function_call: (item) => itemCard(item),
  custom_tool_call: (item) => itemCard(item),
  mcp_call: (item) => itemCard(item),
  web_search_call: (item) => itemCard(item),
  file_search_call: (item) => itemCard(item),
  code_interpreter_call: (item) => itemCard(item),
  shell_call: (item) => itemCard(item),
  image_generation_call: (item) => itemCard(item),
};

const DELTAS = new Set([
  "response.output_text.delta",
  "response.refusal.delta",
  "response.reasoning_text.delta",
  "response.reasoning.delta",
  "response.reasoning_summary_text.delta",
  "response.function_call_arguments.delta",
  "response.custom_tool_call_input.delta",
  "response.mcp_call_arguments.delta",
  "response.code_interpreter_call_code.delta",
]);

const SHORTEST = 0.05; // seconds of writing from which on a rate means something

const ENDS = new Set(["response.completed", "response.incomplete", "response.failed"]);

export class StreamedAnswer {
  constructor() {
    this.items = new Map();
    this.response = null;
    this.problem = null;
    this.started = performance.now();
    this.first = null;
    this.list = make("div", {});
    this.foot = make("p.answer-foot.dim", {}, "Waiting for the first token…");
    this.node = make("div.answer", {}, this.list, this.foot);
  }

  /** @param {object} event */
  receive(event) {
    if (DELTAS.has(event.type)) this.grow(event);
    else if (event.type === "response.created") this.response = event.response;
    else if (event.type === "response.output_item.added") this.add(event);
    else if (event.type === "response.output_item.done") this.finish(event);
    else if (ENDS.has(event.type)) this.end(event.response);
    else if (event.type === "error") this.fail(event.message ?? event.error?.message ?? "The stream ended with an error.");
  }

  /** The engine has read this share of the prompt. */
  read(share) {
    if (this.first === null) this.foot.textContent = `Reading the prompt: ${percent(share)}`;
  }

  add({ output_index: index, item }) {
    const made = GROWING[item.type]?.(item);
    if (!made) return;
    this.items.set(index, made);
    this.list.append(made.node);
  }

  grow({ output_index: index, delta }) {
    if (this.first === null) {
      this.first = (performance.now() - this.started) / 1000;
      this.foot.textContent = "Streaming…";
    }
    this.items.get(index)?.text.appendData(delta);
  }

  finish({ output_index: index, item }) {
    const made = this.items.get(index);
    const finished = FINISHED[item.type]?.(item) ?? (made ? null : itemCard(item));
    if (!finished) return;
    if (made) made.node.replaceWith(finished);
    else this.list.append(finished);
    this.items.set(index, { ...made, node: finished });
  }

  end(response) {
    this.response = response;
    if (response.error) this.fail(response.error.message);
    const reason = response.incomplete_details?.reason;
    if (reason) this.list.append(make("p.remark.warn", {}, `The answer is incomplete: ${reason}.`));
    for (const notice of response.antiphon_notices ?? []) this.list.append(make("p.remark.warn", {}, `Notice: ${notice}`));
    show(this.foot, this.summary());
  }

  summary() {
    const took = (performance.now() - this.started) / 1000;
    const usage = this.response.usage;
    const writing = took - (this.first ?? took);
    const speed = usage && writing > SHORTEST ? `${rate(usage.output_tokens / writing)} tok/s` : null;
    const tokens = usage ? `${count(usage.input_tokens)} → ${count(usage.output_tokens)} tokens` : null;
    return [this.response.status, tokens, `first ${seconds(this.first)}`, speed, seconds(took)].filter(Boolean).join(" · ");
  }

  fail(message) {
    this.problem = message;
    this.list.append(make("p.remark.bad", {}, message));
    this.foot.textContent = "";
  }

  stop() {
    this.list.append(make("p.remark", {}, "Stopped. The conversation goes on from the turn before."));
    this.foot.textContent = "";
  }

  /** The calls that wait for a result. */
  calls(types) {
    return (this.response?.output ?? []).filter((item) => item.type in types);
  }
}
