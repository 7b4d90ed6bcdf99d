// Tables that are sorted by a click or a key on a heading and searched by a field above. A table that is shown again
// keeps its rows: only cells whose text changed are written, ten times a second if need be.
import { h, say } from "./dom.js";

let tables = 0;

/**
 * A table. Each column has `label`, `show(row)` for its text or element, and may have `value(row)` to sort by, `number`
 * to stand on the right, `title` to explain itself. `options` has `caption`, `search` (what a row is found by), `empty`
 * (what to say without rows), `pick` (what a click on a row does), `picked(row)`, `key(row)`, `most` rows.
 */
export function table(columns, options) {
  tables += 1;
  const state = { rows: [], by: options.by ?? null, down: true, words: "" };
  const body = h("tbody");
  const said = h("p", { class: "note", role: "status" });
  const headings = columns.map((column) => heading(column, state, show));
  const grid = h(
    "table",
    {},
    h("caption", { class: "hidden" }, options.caption),
    h("thead", {}, h("tr", {}, headings)),
    body,
  );
  const scroll = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": options.caption }, grid);
  const field = options.search && searchField(options, state, show);
  const element = h("div", { class: "table" }, field, scroll, said);

  function show() {
    const wanted = state.words.toLowerCase();
    let rows = wanted ? state.rows.filter((row) => options.search(row).toLowerCase().includes(wanted)) : state.rows;
    const column = columns[state.by];
    if (column) rows = sorted(rows, column, state.down);
    const hidden = Math.max(0, rows.length - (options.most ?? Infinity));
    rows = rows.slice(0, options.most);
    while (body.rows.length > rows.length) body.lastElementChild.remove();
    rows.forEach((row, place) => fill(body.rows[place] ?? body.appendChild(line(columns)), row, columns, options));
    scroll.hidden = rows.length === 0;
    // What is seen at a glance needs no search.
    if (field) field.hidden = state.rows.length < 8 && state.words === "";
    let words = "";
    if (state.rows.length === 0) words = options.empty ?? "";
    else if (rows.length === 0) words = `Nothing contains “${state.words}”.`;
    else if (hidden > 0) words = `${hidden} more rows; search for them, or take an export.`;
    say(said, words);
  }

  return {
    element,
    update(rows) {
      state.rows = rows;
      show();
    },
  };
}

function heading(column, state, show) {
  const place = () => [...cell.parentElement.children].indexOf(cell);
  const button = column.value
    ? h("button", { type: "button", title: column.title, onclick: sort }, column.label)
    : h("span", { title: column.title }, column.label);
  const cell = h("th", { scope: "col", class: column.number && "number" }, button);
  function sort() {
    state.down = state.by === place() ? !state.down : Boolean(column.number);
    state.by = place();
    for (const other of cell.parentElement.children) other.removeAttribute("aria-sort");
    cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    show();
  }
  return cell;
}

function searchField(options, state, show) {
  const id = `search-${tables}`;
  const input = h("input", { id, type: "search", autocomplete: "off", spellcheck: "false" });
  input.addEventListener("input", () => {
    state.words = input.value;
    show();
  });
  return h("p", { class: "search" }, h("label", { for: id }, options.searchLabel ?? "Search"), input);
}

function sorted(rows, column, down) {
  const value = (row) => column.value(row) ?? -Infinity;
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  return [...rows].sort((a, b) => (down ? order(value(b), value(a)) : order(value(a), value(b))));
}

const line = (columns) => h("tr", {}, columns.map((column) => h("td", { class: column.number && "number" })));

function fill(tr, row, columns, options) {
  columns.forEach((column, place) => {
    const cell = tr.cells[place];
    // A column that paints takes its cell with it from row to row.
    if (column.paint) return column.paint(row, cell);
    const shown = column.show(row);
    if (typeof shown === "string") say(cell, shown);
    else if (cell.dataset.shown !== shown.textContent || shown.href || shown.querySelector?.("a")) {
      cell.dataset.shown = shown.textContent;
      cell.replaceChildren(shown);
    }
  });
  if (options.level) tr.className = options.level(row);
  if (!options.pick) return;
  tr.classList.add("picks");
  tr.classList.toggle("picked", options.picked(row));
  tr.onclick = () => options.pick(row);
}
