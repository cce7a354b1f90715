// Keys for the whole page. While somebody types, they belong to the text.

import { dialogIsOpen, openDialog } from "./dialogs.js";
import { make } from "./elements.js";

/** keys, what they do in words, and what they call. */
export const KEYS = [
  [["j", "ArrowDown"], "The next row or event", (view) => view.move?.(1)],
  [["k", "ArrowUp"], "The one before", (view) => view.move?.(-1)],
  [["Enter"], "Open it, or unfold it", null],
  [["Escape"], "Close it, or leave a field", (view) => view.back?.()],
  [["/"], "Search, or write in the playground", (view) => view.find?.()],
  [["1", "2", "3", "4", "5"], "Requests, playground, engines, stored, usage", null],
  [["t"], "Light or dark", null],
  [["?"], "These keys", () => showKeys()],
];

const SIGNS = { ArrowDown: "↓", ArrowUp: "↑", Escape: "Esc" };

/**
 * @param {() => object} currentView
 * @param {Object<string, () => void>} others keys of the page itself
 */
export function listenToKeys(currentView, others) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialogIsOpen()) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const action = others[event.key] ?? KEYS.find(([keys]) => keys.includes(event.key))?.[2];
    if (!action) return;
    event.preventDefault();
    action(currentView());
  });
}

const isTyping = (target) => target.matches?.("input, textarea, select") ?? false;

export function showKeys() {
  const rows = KEYS.flatMap(([keys, meaning]) => [
    make("dt", {}, keys.map((key) => [make("kbd", {}, SIGNS[key] ?? key), " "]).flat()),
    make("dd", {}, meaning),
  ]);
  openDialog("Keyboard", [make("dl", {}, rows)]);
}
