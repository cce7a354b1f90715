// What a text cites: pages, files, and what the code of a container made.

import { download } from "./clipboard.js";
import { announce, button, make } from "./elements.js";
import { outerLink, webAddress } from "./prose.js";
import { explain, request } from "./server.js";

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const PICTURE_NAME = /\.(png|jpe?g|gif|webp)$/i;
const LARGEST_PICTURE = 8_000_000; // bytes

/** @param {object[]} annotations @returns {any[]} a list of links, and the pictures among them */
export function sources(annotations) {
  const distinct = [...new Map(annotations.map((each) => [keyOf(each), each])).values()];
  const lines = distinct.map((each) => SOURCES[each?.type]?.(each)).filter(Boolean);
  const pictures = distinct.filter(isPicture).map(picture);
  return [
    pictures,
    lines.length
      ? make(
          "ol.sources",
          { "aria-label": "Sources" },
          lines.map((line) => make("li", {}, line)),
        )
      : null,
  ];
}

const keyOf = (each) => [each?.type, each?.url, each?.file_id, each?.filename].join(" ");

const SOURCES = {
  url_citation: ({ url, title }) => {
    const href = webAddress(url);
    if (href === null) return [title, url].filter(Boolean).join(" ");
    return [outerLink(href, title || href), " ", make("span.dim", {}, new URL(href).host)];
  },
  file_citation: ({ file_id: id, filename }) =>
    make("a", { href: `#/stored/files/${encodeURIComponent(id)}` }, filename || id),
  container_file_citation: (each) => [
    each.filename ?? each.file_id,
    " ",
    button("Download", () => save(each), { class: "inline", "aria-label": `Download ${each.filename}` }),
  ],
};

const isPicture = (each) => each?.type === "container_file_citation" && PICTURE_NAME.test(each.filename ?? "");

const contentOf = ({ container_id: container, file_id: file }) =>
  request(`/v1/containers/${encodeURIComponent(container)}/files/${encodeURIComponent(file)}/content`);

async function save(cited) {
  try {
    await download(await contentOf(cited), String(cited.filename).split("/").at(-1));
  } catch (error) {
    announce(explain(error));
  }
}

/** A plot, for example, that the code of the answer has made. Its container may be gone. */
function picture(cited) {
  const place = make("p.dim", {}, `${cited.filename}…`);
  showPicture(cited, place).catch((error) => {
    place.textContent = `${cited.filename}: ${explain(error)}`;
  });
  return place;
}

async function showPicture(cited, place) {
  const data = await (await contentOf(cited)).blob();
  const kind = PICTURES.has(data.type)
    ? data.type
    : `image/${PICTURE_NAME.exec(cited.filename)[1].toLowerCase().replace("jpg", "jpeg")}`;
  if (data.size > LARGEST_PICTURE) {
    place.textContent = `${cited.filename} is too large to be shown here.`;
    return;
  }
  const reader = new FileReader();
  reader.onload = () => place.replaceWith(make("img.picture", { src: reader.result, alt: cited.filename }));
  reader.readAsDataURL(new Blob([data], { type: kind }));
}
