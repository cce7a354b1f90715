// Questions and explanations above the page.

import { button, make } from "./elements.js";

let titles = 0;

/** @param {[string, () => void, object?][]} [actions] buttons besides the one that closes it */
export function openDialog(title, contents, actions = [], close = "Close") {
  const id = `dialog-${(titles += 1)}`;
  const node = make("dialog", { "aria-labelledby": id });
  const end = (action) => () => {
    node.close();
    action?.();
  };
  const buttons = actions.map(([label, action, attributes]) => button(label, end(action), attributes));
  node.append(make("h2", { id }, title), make("div", {}, contents), make("div.buttons", {}, button(close, end(null)), buttons));
  node.addEventListener("close", () => node.remove());
  document.body.append(node);
  node.showModal();
  return node;
}

/** Asks before something is deleted. */
export function confirmDeletion(title, explanation, action) {
  openDialog(title, [make("p", {}, explanation)], [["Delete", action, { class: "danger" }]], "Keep");
}

export const dialogIsOpen = () => document.querySelector("dialog[open]") !== null;
