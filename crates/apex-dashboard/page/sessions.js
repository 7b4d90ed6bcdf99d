// The list of kept sessions, newest first.
import { ask, h, name, pending } from "./dom.js";
import { table } from "./tables.js";
import { bytes, exitWords, moment, nanos, nothing } from "./units.js";

export const sessionLink = (id, ...words) => `#/${["session", id, ...words].map(encodeURIComponent).join("/")}`;

export function sessions(main, _words, { signal, failed }) {
  main.append(h("h1", {}, "Sessions"), pending("Reading the list…"));
  ask("api/sessions", signal).then((list) => show(main, list)).catch(failed);
}

function show(main, list) {
  const columns = [
    { label: "Session", value: (one) => one.id, show: (one) => h("a", { href: sessionLink(one.id) }, one.id) },
    { label: "Command", value: (one) => one.command.join(" "), show: (one) => name(one.command.join(" ")) },
    { label: "Started", value: (one) => one.started_unix_ns, show: (one) => moment(one.started_unix_ns), title: "On your clock" },
    { label: "Duration", number: true, value: (one) => one.duration_ns, show: (one) => nanos(one.duration_ns) },
    { label: "End", value: (one) => exitWords(one.exit, one.running), show: (one) => exitWords(one.exit, one.running) },
    { label: "Size", number: true, value: (one) => one.bytes, show: (one) => bytes(one.bytes), title: "On disk" },
    { label: "Kept", value: (one) => Number(one.pinned), show: (one) => (one.pinned ? "pinned" : nothing), title: "A pinned session stays: apex sessions pin" },
    { label: "Compare", show: (one) => h("a", { href: `#/compare//${encodeURIComponent(one.id)}`, "aria-label": `Compare ${one.id} with another` }, "compare") },
  ];
  const shown = table(columns, {
    caption: "Kept sessions, newest first",
    search: (one) => `${one.id} ${one.command.join(" ")}`,
    searchLabel: "Find a session",
    empty: "No session is kept yet: apex run -- CMD keeps one.",
    most: 500,
  });
  main.replaceChildren(h("h1", {}, "Sessions"), shown.element);
  shown.update([...list].reverse());
}
