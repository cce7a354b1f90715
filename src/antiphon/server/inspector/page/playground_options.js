// The options of the playground: the model, and what every request of the conversation says.

import { make, show } from "./elements.js";
import { getJson } from "./server.js";

const EFFORTS = ["", "none", "minimal", "low", "medium", "high", "xhigh"];
const SAMPLE_TOOLS = `[{"type": "function", "name": "weather",
  "description": "The weather of a city",
  "parameters": {"type": "object",
    "properties": {"city": {"type": "string"}}}}]`;

export class PlaygroundOptions {
  constructor() {
    const efforts = EFFORTS.map((effort) => make("option", { value: effort }, effort || "default"));
    this.model = make("select", { name: "model" });
    this.instructions = make("textarea", { name: "instructions", rows: "3", placeholder: "You are…" });
    this.effort = make("select", { name: "effort" }, efforts);
    this.limit = make("input", { name: "limit", inputmode: "numeric", placeholder: "no limit" });
    this.tools = make("textarea.mono", { name: "tools", rows: "7", placeholder: SAMPLE_TOOLS, spellcheck: "false" });
    const open = matchMedia("(min-width: 761px)").matches;
    this.node = make("details.options", { open }, make("summary", {}, "Options"), this.fields());
  }

  fields() {
    const field = (name, control) => make("label", {}, name, control);
    return make(
      "div.option-fields",
      {},
      field("Model", this.model),
      field("Instructions", this.instructions),
      field("Effort", this.effort),
      field("Max output tokens", this.limit),
      field("Tools, as JSON", this.tools),
    );
  }

  async loadModels() {
    const { data } = await getJson("/v1/models");
    const models = data.map(({ id }) => make("option", { value: id }, id));
    show(this.model, models);
  }

  /** As it was typed. */
  read() {
    return {
      model: this.model.value,
      instructions: this.instructions.value,
      effort: this.effort.value,
      limit: this.limit.value,
      tools: this.tools.value,
    };
  }
}
