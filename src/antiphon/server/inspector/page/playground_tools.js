// The tools of the playground: those that the gateway runs, by switches, and functions as JSON.

import { make } from "./elements.js";
import { StoreChoice } from "./store_choice.js";

const SAMPLE_TOOLS = `[{"type": "function", "name": "weather",
  "description": "The weather of a city",
  "parameters": {"type": "object",
    "properties": {"city": {"type": "string"}}}}]`;
const SAMPLE_SERVERS = `time
maps https://…`;

const checkbox = (name, onchange = null) => make("input", { type: "checkbox", name, onchange });
const switched = (control, words) => make("label.switch", {}, control, words);

export class PlaygroundTools {
  constructor() {
    this.webSearch = checkbox("web-search");
    this.codeInterpreter = checkbox("code-interpreter");
    this.fileSearch = checkbox("file-search", () => this.showStores());
    this.stores = new StoreChoice();
    this.servers = make("textarea.mono", { name: "mcp", rows: "2", placeholder: SAMPLE_SERVERS, spellcheck: "false" });
    this.unasked = checkbox("mcp-unasked");
    this.functions = make("textarea.mono", { name: "tools", rows: "5", placeholder: SAMPLE_TOOLS, spellcheck: "false" });
    this.node = make("fieldset.tool-switches", {}, make("legend", {}, "Tools"), this.fields());
    this.showStores();
  }

  fields() {
    return [
      switched(this.webSearch, "Web search"),
      switched(this.codeInterpreter, "Code interpreter"),
      switched(this.fileSearch, "File search"),
      this.stores.node,
      make("label", {}, "MCP servers: a label in each line, and a URL", this.servers),
      switched(this.unasked, "Call their tools without asking"),
      make("label", {}, "Tools, as JSON", this.functions),
    ];
  }

  showStores() {
    this.stores.node.hidden = !this.fileSearch.checked;
  }

  async load() {
    await this.stores.load();
  }

  read() {
    return {
      webSearch: this.webSearch.checked,
      codeInterpreter: this.codeInterpreter.checked,
      fileSearch: this.fileSearch.checked,
      store: this.stores.value,
      servers: this.servers.value,
      unasked: this.unasked.checked,
      tools: this.functions.value,
    };
  }
}
