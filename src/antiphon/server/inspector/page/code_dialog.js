// A request as code, to be read and copied.

import { copy } from "./clipboard.js";
import { asCurl, asPython } from "./code_samples.js";
import { openDialog } from "./dialogs.js";
import { choice, make } from "./elements.js";

const FORMS = { python: ["Python", asPython], curl: ["curl", asCurl] };

/** @param {{path: string|null, body: object}} client */
export function showCode(client) {
  const place = make("pre.code-sample", { tabindex: "0", "aria-label": "The request as code" });
  let chosen = "python";
  const showForm = (form) => {
    chosen = form;
    place.textContent = FORMS[form][1](client);
  };
  const forms = Object.entries(FORMS).map(([form, [name]]) => [form, name]);
  showForm(chosen);
  const copyIt = () => copy(place.textContent, `the request as ${FORMS[chosen][0]}`);
  openDialog("As code", [choice("Language", forms, chosen, showForm), place], [["Copy", copyIt]]);
}
