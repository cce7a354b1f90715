// Elements of the page. What comes from the server only ever becomes text: nothing here parses markup.

/**
 * @param {string} description a tag with classes: "div.card.new"
 * @param {Object<string, any>} [attributes] `onclick` and the like take functions; null and false leave an attribute out
 * @param {...any} children nodes and texts; null, undefined and false are left out
 * @returns {HTMLElement}
 */
export function make(description, attributes = {}, ...children) {
  const [tag, ...classes] = description.split(".");
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes)) assign(node, name, value);
  node.append(...children.flat(Infinity).filter(isShown).map(textOrNode));
  return node;
}

function assign(node, name, value) {
  if (typeof value === "function") node.addEventListener(name.replace(/^on/, ""), value);
  else if (isShown(value)) node.setAttribute(name, value === true ? "" : value);
}

const isShown = (value) => value !== null && value !== undefined && value !== false;
const textOrNode = (child) => (child instanceof Node ? child : String(child));

export function button(label, onclick, attributes = {}) {
  return make("button", { type: "button", onclick, ...attributes }, label);
}

/** A folded part, whose contents are made when it is first opened. */
export function fold(summary, contents, attributes = {}) {
  const node = make("details", attributes, make("summary", {}, summary));
  const fill = () => {
    if (node.open && node.childElementCount === 1) node.append(make("div.fold-body", {}, contents()));
  };
  node.addEventListener("toggle", fill);
  fill();
  return node;
}

/** Replaces what a node contains. */
export function show(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter(isShown).map(textOrNode));
}

/** Buttons of which one is chosen, and what belongs to it. */
export function choice(label, options, chosen, onchoose) {
  const buttons = options.map(([value, text]) =>
    button(text, () => choose(value), { "aria-pressed": String(value === chosen), "data-value": value }),
  );
  const choose = (value) => {
    for (const each of buttons) each.setAttribute("aria-pressed", String(each.dataset.value === String(value)));
    onchoose(value);
  };
  return make("div.choice", { role: "group", "aria-label": label }, buttons);
}

let forgetting = 0;

/** One short sentence for everybody, screen readers too. It goes away by itself. */
export function announce(text) {
  const place = document.getElementById("announcement");
  place.textContent = text;
  clearTimeout(forgetting);
  forgetting = setTimeout(() => {
    place.textContent = "";
  }, 4000);
}
