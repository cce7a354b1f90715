// The second pane of an opened request: what the engine got, and where its prompt cache broke.

import { fields, label, tools } from "./cards.js";
import { choice, fold, make, show } from "./elements.js";
import { messageCard } from "./chat_messages.js";
import { jsonTree } from "./json_tree.js";
import { promptDifference } from "./prompt_difference.js";
import { bytes, host, percent, seconds, several } from "./quantities.js";

const SHOWN_APART = new Set(["messages", "tools"]);

const PASSED_ON = "What the client sent, as it came. Its answer was passed on, too, and is not recorded.";

/** @param {object} detail what the server says of one request */
export function enginePane(detail) {
  const { asks, changes, row } = detail;
  if (!asks.length) return [make("p.remark", {}, row.status === "passed" ? PASSED_ON : "No engine was asked.")];
  const body = make("div");
  const state = { ask: 0, form: "messages" };
  const draw = () => show(body, askParts(asks[state.ask], state.ask === 0 ? changes : null, state.form));
  const names = asks.map((ask, index) => [String(index), `${index + 1} ${ask.purpose ?? "ask"}`]);
  draw();
  return [
    make(
      "div.pane-tools",
      {},
      asks.length > 1
        ? choice("Ask", names, "0", (index) => {
            state.ask = Number(index);
            draw();
          })
        : null,
      choice(
        "Form",
        [
          ["messages", "Messages"],
          ["json", "JSON"],
        ],
        "messages",
        (form) => {
          state.form = form;
          draw();
        },
      ),
    ),
    body,
  ];
}

function askParts(ask, changes, form) {
  const head = `${host(ask.engine)}, ${ask.dialect ?? "unknown dialect"}, ${bytes(ask.bytes)}, after ${seconds(ask.at)}`;
  return [
    make("p.dim.pane-line", {}, head),
    ask.refused ? make("p.remark.bad", {}, `The engine rejected it: ${ask.refused.message}`) : null,
    ...(form === "json" ? [jsonTree(ask.chat, { open: 2 })] : chatParts(ask.chat, changes)),
  ];
}

function chatParts(chat, changes) {
  const marker = () => cacheBreak(changes, chat);
  const breaks = breakPlace(changes);
  return [
    breaks === "top" ? marker() : null,
    fields(
      chat,
      Object.keys(chat).filter((name) => !SHOWN_APART.has(name)),
    ),
    breaks === "tools" ? marker() : null,
    chat.tools?.length ? tools(chat.tools) : null,
    ...messageParts(chat.messages ?? [], changes, breaks === "messages" ? marker : null),
  ];
}

/** Before which part the marker stands: what is neither tools nor messages concerns the whole prompt. */
function breakPlace(changes) {
  if (!changes?.prefix_changed) return null;
  const part = changes.where?.part;
  return SHOWN_APART.has(part) ? part : "top";
}

/** What both turns have in common is folded; what comes after it is marked. */
function messageParts(messages, changes, marker) {
  const kept = keptMessages(messages, changes, marker);
  const change = changes === null ? null : changes.prefix_changed ? "again" : "new";
  const cards = (from, to, mark) =>
    messages.slice(from, to).map((message, index) => messageCard(message, from + index, { change: mark }));
  return [
    kept
      ? fold([label("unchanged"), `${several(kept, "message")} as in #${changes.previous}`], () => cards(0, kept, null), {
          class: "folded kept",
        })
      : null,
    marker?.(),
    ...cards(kept, messages.length, change),
  ];
}

function keptMessages(messages, changes, marker) {
  if (!changes || (changes.prefix_changed && !marker)) return 0;
  return Math.min(marker ? changes.where.index : changes.shared_messages, messages.length);
}

function cacheBreak(changes, chat) {
  const share =
    changes.shared_share === null || changes.shared_share === undefined
      ? ""
      : `${percent(changes.shared_share)} of the prompt comes before it. `;
  const path = changes.where?.path;
  return make(
    "div.cache-break",
    { role: "note", id: "cache-break", tabindex: "-1" },
    make("strong", {}, "The prompt cache broke here"),
    path ? make("code", {}, path) : null,
    make("p", {}, changes.why),
    make("p.dim", {}, `${share}The engine reads all that follows again.`),
    promptDifference(changes, chat),
  );
}

/** One line above the panes. `showEngine`: shows this one. */
export function changeLine(changes, showEngine) {
  if (!changes) return null;
  const previous = make("a", { href: `#/requests/${changes.previous}` }, `#${changes.previous}`);
  if (changes.prefix_changed) {
    const jump = make("button.inline", { type: "button", onclick: () => showBreak(showEngine) }, "Show where");
    return make(
      "p.change-line",
      { "data-changed": "yes" },
      "Since ",
      previous,
      ": the beginning of the prompt changed. ",
      changes.why,
      " ",
      jump,
    );
  }
  const added = changes.added === null || changes.added === undefined ? "" : `${several(changes.added, "message")} added. `;
  return make(
    "p.change-line",
    { "data-changed": "no" },
    "Since ",
    previous,
    `: ${added}Everything before is unchanged, so the engine's prompt cache still holds.`,
  );
}

function showBreak(showEngine) {
  showEngine();
  const marker = document.getElementById("cache-break");
  marker?.scrollIntoView({ block: "center" });
  marker?.focus();
}
