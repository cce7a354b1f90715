// The turns of one conversation in the list of requests: the newest has a button, which unfolds the earlier ones below it.

import { make } from "./elements.js";

/** What a row belongs to. One that continues nothing, and that nothing continues, is alone. */
const conversationOf = (row) => row.conversation ?? row.number;

/**
 * @param {Iterable<object>} rows
 * @returns {object[][]} conversations, that with the newest turn first; the newest turn of each first
 */
export function conversations(rows) {
  const found = new Map();
  for (const row of [...rows].sort((one, other) => other.number - one.number)) {
    const turns = found.get(conversationOf(row));
    if (turns) turns.push(row);
    else found.set(conversationOf(row), [row]);
  }
  return [...found.values()];
}

/** Which conversations are unfolded, and the rows in the order of their conversations. */
export class ConversationRows {
  /** @param {HTMLElement} body of the table @param {Set<number>} unfolded by the numbers of their first turns */
  constructor(body, unfolded) {
    this.body = body;
    this.unfolded = unfolded;
  }

  /** @param {Map<number, {row: object, node: HTMLElement}>} shown */
  arrange(shown) {
    const order = [];
    for (const [newest, ...earlier] of conversations([...shown.values()].map(({ row }) => row))) {
      const key = conversationOf(newest);
      const isOpen = this.unfolded.has(key);
      const head = shown.get(newest.number).node;
      this.mark(head, { turn: null, hidden: false });
      this.offer(head, earlier.length, isOpen, () => this.toggle(key, shown));
      order.push(head);
      for (const { number } of earlier) {
        const { node } = shown.get(number);
        this.mark(node, { turn: "earlier", hidden: !isOpen });
        this.offer(node, 0);
        order.push(node);
      }
    }
    this.put(order);
  }

  /** A node that is moved or hidden loses the focus. */
  put(order) {
    const focused = document.activeElement;
    const hadFocus = this.body.contains(focused);
    order.forEach((node, at) => {
      if (this.body.rows[at] !== node) this.body.insertBefore(node, this.body.rows[at] ?? null);
    });
    if (!hadFocus) return;
    let row = focused.closest("tr");
    if (!row.hidden) {
      focused.focus();
      return;
    }
    while (row.hidden) row = row.previousElementSibling;
    row.querySelector("a").focus();
  }

  mark(node, { turn, hidden }) {
    node.hidden = hidden;
    if (turn) node.dataset.turn = turn;
    else delete node.dataset.turn;
  }

  /** A button for that many earlier turns. */
  offer(node, count, isOpen, onclick) {
    const cell = node.querySelector("td[data-column=number]");
    const known = cell.querySelector("button");
    if (!count) {
      known?.remove();
      return;
    }
    const place = known ?? make("button.quiet.turns-button", { type: "button" });
    if (!known) cell.append(place);
    place.onclick = onclick;
    place.textContent = `${count + 1} turns`;
    place.setAttribute("aria-expanded", String(isOpen));
    place.setAttribute("aria-label", `${count + 1} turns of one conversation`);
  }

  toggle(key, shown) {
    if (!this.unfolded.delete(key)) this.unfolded.add(key);
    this.arrange(shown);
  }
}
