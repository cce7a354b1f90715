// The playground: a conversation with a model, as any client would have it.

import { card, label } from "./cards.js";
import { showCode } from "./code_dialog.js";
import { spokenItems } from "./conversation.js";
import { button, make, show } from "./elements.js";
import { readEvents } from "./event_stream.js";
import { longText } from "./long_text.js";
import { PlaygroundOptions } from "./playground_options.js";
import { APPROVED, FieldProblem, RESULTS, requestBody } from "./playground_request.js";
import { explain, getJson, query, request } from "./server.js";
import { StreamedAnswer } from "./streamed_answer.js";

const EARLIER = 100; // items of a conversation that is continued: so many are shown

/** What the call of each type is answered with. */
const ANSWERS = {
  mcp_approval_request: (name) =>
    make(
      "select",
      { "aria-label": `Approval of ${name}` },
      make("option", { value: APPROVED }, APPROVED),
      make("option", { value: "refused" }, "refused"),
    ),
};
const resultField = (name) =>
  make("textarea.mono", { rows: "2", "aria-label": `Result of ${name}`, placeholder: "What the tool returns" });

export class PlaygroundView {
  title = "Playground";

  constructor(place, { live }) {
    this.unlisten = live.listen({ row: (row) => this.read(row) });
    this.from = {}; // what the next request goes on from
    this.results = []; // calls that wait, with the fields of their results
    this.running = null;
    this.build(place);
    this.loaded = this.loadOptions();
  }

  build(place) {
    this.options = new PlaygroundOptions();
    this.turns = make("div.turns", { role: "log", "aria-label": "Conversation", tabindex: "0" });
    this.message = make("textarea", {
      rows: "3",
      "aria-label": "Message",
      placeholder: "Message (Enter sends, Shift+Enter for a new line)",
      onkeydown: (event) => this.typed(event),
    });
    this.problem = make("p.problem", { role: "alert" });
    this.sendButton = button("Send", () => this.send(), { class: "main" });
    this.stopButton = button("Stop", () => this.running?.abort(), { disabled: true });
    const anew = button("New conversation", () => this.restart(), { class: "quiet" });
    const code = button("Show as code", () => this.showAsCode(), { class: "quiet" });
    const buttons = make("div.buttons", {}, this.sendButton, this.stopButton, anew, code);
    const composer = make("div.composer", {}, this.problem, this.message, buttons);
    const talk = make("div.talk", {}, make("h1.unseen", {}, "Playground"), this.turns, composer);
    show(place, make("div.playground", {}, this.options.node, talk));
    this.restart();
  }

  async loadOptions() {
    try {
      await this.options.load();
    } catch (error) {
      this.problem.textContent = `The options could not be listed. ${explain(error)}`;
    }
  }

  restart() {
    this.running?.abort();
    this.from = {};
    this.results = [];
    show(this.turns, make("p.dim.hint", {}, "Type a message. Text, reasoning and calls stream in here."));
  }

  /** From a stored response, or a conversation, by its id. */
  async goOn(id) {
    if (!id) return;
    // Who comes back to the playground finds it as it is now.
    history.replaceState(null, "", "#/playground");
    this.restart();
    this.problem.textContent = "";
    try {
      const { from, items, model } = id.startsWith("conv_") ? await storedConversation(id) : await storedResponse(id);
      await this.loaded;
      if (model) this.options.choose(model);
      this.from = from;
      show(this.turns, spokenItems(items));
      this.turns.scrollTop = this.turns.scrollHeight;
    } catch (error) {
      this.problem.textContent = `It cannot be continued. ${explain(error)}`;
    }
  }

  /** What Send would send; where nothing is typed yet, a greeting. */
  showAsCode() {
    const input = this.input();
    const body = this.checked(input.length ? input : [{ role: "user", content: "Hello" }]);
    if (body) showCode({ path: "/v1/responses", body });
  }

  /** The request; null: a field cannot be sent as it is, and the page says so. */
  checked(input) {
    this.problem.textContent = "";
    try {
      return requestBody(this.options.read(), input, this.from);
    } catch (error) {
      if (!(error instanceof FieldProblem)) throw error;
      this.problem.textContent = error.message;
      return null;
    }
  }

  typed(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!this.running) this.send();
  }

  /** What is sent: the results of calls that wait, and the message. */
  input() {
    const text = this.message.value.trim();
    const results = this.results.map(({ call, field }) => RESULTS[call.type](call, field.value));
    return text ? [...results, { role: "user", content: text }] : results;
  }

  async send() {
    const input = this.input();
    if (!input.length || this.running) return;
    const body = this.checked(input);
    if (!body) return;
    this.showInput(input);
    await this.run(body);
  }

  showInput(input) {
    this.turns.querySelector(".hint")?.remove();
    for (const { field, form } of this.results) form.replaceWith(card("result", [label("result")], longText(field.value)));
    this.results = [];
    const said = input.find((item) => item.role === "user");
    if (said) this.turns.append(card("user", [label("user")], longText(said.content)));
    this.message.value = "";
  }

  async run(body) {
    const answer = (this.answer = new StreamedAnswer());
    this.turns.append(answer.node);
    this.running = new AbortController();
    this.setRunning(true);
    try {
      const stream = await request("/v1/responses", { method: "POST", body, signal: this.running.signal });
      for await (const { data } of readEvents(stream)) if (data !== "[DONE]") this.show(answer, JSON.parse(data));
      this.settle(answer);
    } catch (error) {
      if (error.name === "AbortError") answer.stop();
      else answer.fail(explain(error));
    }
    this.running = null;
    this.setRunning(false);
    this.linkToRequest(answer);
  }

  /** Of the rows of requests, that of the answer that is waited for. */
  read({ id, prompt_read: share }) {
    if (typeof share === "number" && this.answer?.response?.id === id) this.answer.read(share);
  }

  setRunning(running) {
    this.sendButton.disabled = running;
    this.stopButton.disabled = !running;
  }

  /** The end stays in sight, unless somebody has scrolled up. */
  show(answer, event) {
    const { scrollHeight, scrollTop, clientHeight } = this.turns;
    const atEnd = scrollHeight - scrollTop - clientHeight < 40;
    answer.receive(event);
    if (atEnd) this.turns.scrollTop = this.turns.scrollHeight;
  }

  settle(answer) {
    if (answer.problem || !answer.response) return;
    if (!this.from.conversation) this.from = { previous_response_id: answer.response.id };
    this.results = answer.calls(RESULTS).map((call) => this.askForResult(call));
    this.turns.scrollTop = this.turns.scrollHeight;
    this.results[0]?.field.focus();
  }

  askForResult(call) {
    const field = (ANSWERS[call.type] ?? resultField)(call.name);
    const form = card(
      "result",
      [label("result"), `of ${call.name}`],
      field,
      make("p.dim", {}, "It is sent with the next message, or alone by Send."),
    );
    this.turns.append(form);
    return { call, field, form };
  }

  async linkToRequest(answer) {
    const id = answer.response?.id;
    if (!id) return;
    try {
      const { data } = await getJson(query("/inspector/requests", { limit: 50 }));
      const row = data.find((each) => each.id === id);
      if (row) answer.foot.append(" ", make("a", { href: `#/requests/${row.number}` }, `Request #${row.number}`));
    } catch {
      // The answer is complete without a link.
    }
  }

  find() {
    this.message.focus();
  }

  close() {
    this.unlisten();
    this.running?.abort();
  }
}

async function storedResponse(id) {
  const path = `/v1/responses/${encodeURIComponent(id)}`;
  const [response, given] = await Promise.all([getJson(path), getJson(query(`${path}/input_items`, newest))]);
  const items = [...given.data.reverse(), ...response.output];
  return { from: { previous_response_id: id }, items, model: response.model };
}

async function storedConversation(id) {
  const { data } = await getJson(query(`/v1/conversations/${encodeURIComponent(id)}/items`, newest));
  return { from: { conversation: id }, items: data.reverse() };
}

const newest = { order: "desc", limit: EARLIER };
