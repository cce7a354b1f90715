// Which vector store is searched; a file that is dropped gets into it, or into a new one.

import { make, show } from "./elements.js";
import { explain, getJson, query, request } from "./server.js";

const MOST = 100; // stores that are offered
const PAUSE = 500; // ms between two looks at a file that is being read
const NEW = "Playground";

export class StoreChoice {
  constructor() {
    this.select = make("select", { name: "store" });
    this.state = make("p.dim", { role: "status" });
    const chosen = { onchange: () => this.add(this.file.files) };
    this.file = make("input", { type: "file", multiple: true, "aria-label": "Files to search", ...chosen });
    const dropping = { ondragover: (event) => event.preventDefault(), ondrop: (event) => this.drop(event) };
    const drop = make("div.drop", dropping, "Drop files here, or choose them", this.file);
    this.node = make("div.store-choice", {}, make("label", {}, "Vector store", this.select), drop, this.state);
    this.offer([]);
  }

  /** None: a new store is made for the first file. */
  get value() {
    return this.select.value;
  }

  offer(stores) {
    const all = stores.map(({ id, name }) => make("option", { value: id }, name || id));
    show(this.select, make("option", { value: "" }, "a new one"), all);
  }

  async load(chosen = this.value) {
    const { data } = await getJson(query("/v1/vector_stores", { limit: MOST }));
    this.offer(data);
    this.select.value = data.some(({ id }) => id === chosen) ? chosen : "";
  }

  drop(event) {
    event.preventDefault();
    this.add(event.dataTransfer.files);
  }

  async add(files) {
    for (const file of [...files]) await this.addOne(file);
    this.file.value = "";
  }

  async addOne(file) {
    try {
      this.state.textContent = `${file.name} is being sent…`;
      const form = new FormData();
      form.append("purpose", "assistants");
      form.append("file", file);
      const { id } = await (await request("/v1/files", { method: "POST", body: form })).json();
      const store = this.value || (await this.make());
      this.state.textContent = `${file.name} is being read…`;
      this.state.textContent = `${file.name}: ${await read(store, id)}`;
    } catch (error) {
      this.state.textContent = `${file.name}: ${explain(error)}`;
    }
  }

  async make() {
    const answer = await request("/v1/vector_stores", { method: "POST", body: { name: NEW } });
    const { id } = await answer.json();
    await this.load(id);
    return id;
  }
}

/** Puts the file into the store. @returns {Promise<string>} what has become of it, in words */
async function read(store, id) {
  const path = `/v1/vector_stores/${store}/files`;
  let file = await (await request(path, { method: "POST", body: { file_id: id } })).json();
  while (file.status === "in_progress") {
    await new Promise((resolve) => {
      setTimeout(resolve, PAUSE);
    });
    file = await getJson(`${path}/${id}`);
  }
  return file.status === "completed" ? "can be searched." : (file.last_error?.message ?? file.status);
}
