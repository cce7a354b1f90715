// The playground: a conversation with a model, as any client would have it.

import { card, label } from "./cards.js";
import { button, make, show } from "./elements.js";
import { readEvents } from "./event_stream.js";
import { longText } from "./long_text.js";
import { PlaygroundOptions } from "./playground_options.js";
import { FieldProblem, RESULTS, requestBody } from "./playground_request.js";
import { explain, getJson, query, request } from "./server.js";
import { StreamedAnswer } from "./streamed_answer.js";

export class PlaygroundView {
  title = "Playground";

  constructor(place) {
    this.previous = null;
    this.results = []; // calls that wait, with the fields of their results
    this.running = null;
    this.build(place);
    this.loadModels();
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
    const buttons = make("div.buttons", {}, this.sendButton, this.stopButton, anew);
    const composer = make("div.composer", {}, this.problem, this.message, buttons);
    const talk = make("div.talk", {}, make("h1.unseen", {}, "Playground"), this.turns, composer);
    show(place, make("div.playground", {}, this.options.node, talk));
    this.restart();
  }

  async loadModels() {
    try {
      await this.options.loadModels();
    } catch (error) {
      this.problem.textContent = `The models could not be listed. ${explain(error)}`;
    }
  }

  restart() {
    this.running?.abort();
    this.previous = null;
    this.results = [];
    show(this.turns, make("p.dim.hint", {}, "Type a message. Text, reasoning and calls stream in here."));
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
    let body;
    try {
      body = requestBody(this.options.read(), input, this.previous);
    } catch (error) {
      if (!(error instanceof FieldProblem)) throw error;
      this.problem.textContent = error.message;
      return;
    }
    this.problem.textContent = "";
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
    const answer = new StreamedAnswer();
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
    this.previous = answer.response.id;
    this.results = answer.calls(RESULTS).map((call) => this.askForResult(call));
    this.turns.scrollTop = this.turns.scrollHeight;
    this.results[0]?.field.focus();
  }

  askForResult(call) {
    const field = make("textarea.mono", {
      rows: "2",
      "aria-label": `Result of ${call.name}`,
      placeholder: "What the tool returns",
    });
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
    this.running?.abort();
  }
}
