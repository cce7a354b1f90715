// Copying and downloading.

import { announce, make } from "./elements.js";
import { openDialog } from "./dialogs.js";

/** Browsers allow it on loopback and with TLS only; elsewhere the text is shown, selected. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    announce(`Copied ${what}.`);
  } catch {
    const area = make("textarea.mono", { rows: "12", readonly: true, "aria-label": what }, text);
    openDialog("Copy it from here", [area]);
    area.select();
  }
}

/** @param {Response} answer */
export async function download(answer, name) {
  const suggested = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1];
  const url = URL.createObjectURL(await answer.blob());
  const link = make("a", { href: url, download: suggested ?? name });
  link.click();
  // The browser reads it only after the click was handled.
  setTimeout(() => URL.revokeObjectURL(url), 10000);
  announce(`Downloaded ${link.download}.`);
}
