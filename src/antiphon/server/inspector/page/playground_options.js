// The options of the playground: the model, and what every request of the conversation says.

import { make, show } from "./elements.js";
import { PlaygroundTools } from "./playground_tools.js";
import { getJson } from "./server.js";

const EFFORTS = ["", "none", "minimal", "low", "medium", "high", "xhigh"];
const FORMATS = [
  ["text", "text"],
  ["json_object", "a JSON object"],
  ["json_schema", "JSON by a schema"],
];
const SAMPLE_SCHEMA = `{"type": "object",
  "properties": {"city": {"type": "string"}},
  "required": ["city"], "additionalProperties": false}`;

const options = (list) => list.map(([value, text]) => make("option", { value }, text));
const field = (name, control) => make("label", {}, name, control);

export class PlaygroundOptions {
  constructor() {
    this.model = make("select", { name: "model" });
    this.instructions = make("textarea", { name: "instructions", rows: "3", placeholder: "You are…" });
    this.effort = make("select", { name: "effort" }, options(EFFORTS.map((effort) => [effort, effort || "default"])));
    this.temperature = make("input", { name: "temperature", inputmode: "decimal", placeholder: "default" });
    this.limit = make("input", { name: "limit", inputmode: "numeric", placeholder: "no limit" });
    this.format = make("select", { name: "format", onchange: () => this.showSchema() }, options(FORMATS));
    this.schema = make("textarea.mono", { name: "schema", rows: "5", placeholder: SAMPLE_SCHEMA, spellcheck: "false" });
    this.schemaField = field("Schema", this.schema);
    this.tools = new PlaygroundTools();
    const open = matchMedia("(min-width: 761px)").matches;
    this.node = make("details.options", { open }, make("summary", {}, "Options"), this.fields());
    this.showSchema();
  }

  fields() {
    return make(
      "div.option-fields",
      {},
      field("Model", this.model),
      field("Instructions", this.instructions),
      this.tools.node,
      field("Format of the answer", this.format),
      this.schemaField,
      field("Effort", this.effort),
      field("Temperature", this.temperature),
      field("Max output tokens", this.limit),
    );
  }

  showSchema() {
    this.schemaField.hidden = this.format.value !== "json_schema";
  }

  async load() {
    // `data` also has the model of embeddings that comes with Antiphon, which answers no conversation.
    const { models } = await getJson("/v1/models");
    show(this.model, options(models.map(({ slug }) => [slug, slug])));
    await this.tools.load();
  }

  /** Another one than those that are offered stays as it is. */
  choose(model) {
    if ([...this.model.options].some(({ value }) => value === model)) this.model.value = model;
  }

  /** As it was typed. */
  read() {
    return {
      model: this.model.value,
      instructions: this.instructions.value,
      effort: this.effort.value,
      temperature: this.temperature.value,
      limit: this.limit.value,
      format: this.format.value,
      schema: this.schema.value,
      ...this.tools.read(),
    };
  }
}
