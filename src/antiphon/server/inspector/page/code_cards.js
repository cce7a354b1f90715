// Cards of code and commands that ran: what went in, and what came out.

import { aside, card, foldedText, label } from "./cards.js";
import { make } from "./elements.js";
import { jsonTree } from "./json_tree.js";
import { several } from "./quantities.js";

/** Pictures that are shown. What else a URL may be is never loaded. */
const PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,/;

export function codeCard(item, place) {
  return card(
    "call",
    [label("code interpreter"), aside(item.container_id), aside(item.status), place],
    typeof item.code === "string" && item.code ? foldedText("code", item.code) : null,
    list(item.outputs).map(codeOutput),
  );
}

function codeOutput(output) {
  if (typeof output?.logs === "string") return foldedText("logs", output.logs);
  if (PICTURE.test(output?.url)) return make("img.picture", { src: output.url, alt: "Image that the code made" });
  return jsonTree(output);
}

export function shellCard(item, place) {
  const { commands, command } = item.action ?? {};
  const lines = list(commands ?? (command && [list(command).join(" ")])).map(String);
  return card(
    "call",
    [label("shell"), aside(item.call_id), aside(item.environment?.container_id), aside(item.status), place],
    lines.length ? foldedText(several(lines.length, "command"), lines.join("\n")) : null,
  );
}

export function shellResultCard(item, place) {
  const outputs = typeof item.output === "string" ? [{ stdout: item.output }] : list(item.output);
  return card("result", [label("result"), aside(item.call_id), place], outputs.map(shellOutput));
}

function shellOutput({ stdout, stderr, outcome } = {}) {
  return [
    outcome ? make("p.dim", {}, outcomeWords(outcome)) : null,
    stdout ? foldedText("stdout", String(stdout)) : null,
    stderr ? foldedText("stderr", String(stderr)) : null,
  ];
}

const outcomeWords = ({ type, exit_code: code }) => (type === "exit" ? `exit code ${code}` : String(type ?? ""));

const list = (value) => (Array.isArray(value) ? value : []);
