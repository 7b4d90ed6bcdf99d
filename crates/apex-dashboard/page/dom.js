// Makes elements. Text goes in as text and nothing is ever parsed as markup, so the name of a kernel or a command can
// be anything at all.

/** An element with properties, attributes and children; children are elements or text. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

/** Sets text only where it differs: writing it anew would move a reader's selection. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A document of the server; what it refuses becomes an error with its sentence. */
export async function ask(path, signal) {
  const answer = await fetch(path, { signal });
  const document = await answer.json();
  if (!answer.ok) throw new Error(document.error ?? `the server answered ${answer.status}`);
  return document;
}

/** A name that is cut where there is no room for all of it, and whole for whoever points at it. */
export const name = (text) => h("span", { class: "cut", title: text }, text);

/** A note to the reader in place of what cannot be shown. */
export const note = (...words) => h("p", { class: "note" }, ...words);

/** A note that stands until an answer is there. */
export const pending = (...words) => h("p", { class: "note", "aria-busy": "true" }, ...words);

/** A sentence of a document that begins one here. */
export const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? "" : ".");

/** A part of a page under its heading. */
export const part = (heading, ...children) =>
  h("section", {}, h("h2", {}, heading), ...children);
