// Items of the Responses API: one row for each type that is shown in its own way. Others are shown as JSON.

import { aside, card, contents, foldedJson, foldedText, label } from "./cards.js";
import { jsonTree } from "./json_tree.js";

/** @param {object} value an item; messages may leave out their type @param {string} [place] its path, as errors name it */
export function itemCard(value, place = "") {
  const type = value.type ?? (value.role ? "message" : "item");
  return (CARDS[type] ?? otherCard)(value, aside(place), type);
}

const CARDS = {
  message: (item, place) => card(item.role, [label(item.role), place], contents(item.content)),
  reasoning: (item, place) => card("thought", [label("reasoning"), place], foldedText("thought", thoughtOf(item))),
  function_call: (item, place) => callCard(item, place, item.arguments),
  custom_tool_call: (item, place) => callCard(item, place, item.input),
  function_call_output: resultCard,
  custom_tool_call_output: resultCard,
};

function callCard(item, place, sent) {
  return card("call", [label("call"), item.name, aside(item.call_id), place], foldedJson("arguments", sent ?? ""));
}

function resultCard(item, place) {
  return card("result", [label("result"), aside(item.call_id), place], foldedJson("output", item.output ?? ""));
}

function otherCard(item, place, type) {
  return card("other", [label(type), place], jsonTree(item));
}

/** The thought of a reasoning item, or what stands for it. */
export function thoughtOf(item) {
  const parts = [...(item.summary ?? []), ...(item.content ?? [])].map((part) => part.text ?? "");
  if (parts.length) return parts.join("\n\n");
  return item.encrypted_content ? `(sealed: ${item.encrypted_content.length} characters)` : "";
}
