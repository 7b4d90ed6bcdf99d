// Two sessions beside each other: the answer first, then what the difference consists of, then the kernels.
import { ask, h, name, note, part, pending, sentence } from "./dom.js";
import { sessionLink } from "./sessions.js";
import { table } from "./tables.js";
import { bytes, change, count, moment, nanos, percent, points } from "./units.js";

export function compare(main, [before, after], { signal, failed }) {
  main.append(h("h1", {}, "Compare"), pending("Reading the sessions…"));
  ask("api/sessions", signal)
    .then(async (list) => {
      const pair = choice([...list].reverse(), before, after);
      main.replaceChildren(h("h1", {}, "Compare"));
      if (!pair) return main.append(note("Two sessions are needed, and fewer are kept: apex run -- CMD keeps one."));
      main.append(pickers(list, pair));
      const said = h("div", {}, pending("Comparing…"));
      main.append(said);
      const path = `api/diff?before=${encodeURIComponent(pair[0])}&after=${encodeURIComponent(pair[1])}`;
      said.replaceChildren(...answer(await ask(path, signal)));
    })
    .catch(failed);
}

/** What changed against the session of the same command before it, in one sentence; none where there is no such session. */
export async function against(id, signal) {
  const list = await ask("api/sessions", signal);
  const at = list.findIndex((one) => one.id === id);
  const same = (one) => one.command.join("\0") === list[at].command.join("\0");
  const before = at < 0 ? undefined : list.slice(0, at).findLast(same);
  if (!before) return null;
  const { headline } = await ask(`api/diff?before=${encodeURIComponent(before.id)}&after=${encodeURIComponent(id)}`, signal);
  return { before, headline: sentence(headline) };
}

/** The two sessions that are named; where one is not, the newest and the one of the same command before it. */
function choice(list, before, after) {
  const later = list.find((one) => one.id === after) ?? list[0];
  if (!later || list.length < 2) return null;
  const older = list.slice(list.indexOf(later) + 1);
  const same = older.find((one) => one.command.join("\0") === later.command.join("\0"));
  const earlier = list.find((one) => one.id === before) ?? same ?? older[0] ?? list.find((one) => one !== later);
  return [earlier.id, later.id];
}

function pickers(list, [before, after]) {
  const picker = (label, chosen, path) => {
    const options = [...list].reverse().map((one) => {
      const words = `${moment(one.started_unix_ns)} · ${one.command.join(" ").slice(0, 80)}`;
      return h("option", { value: one.id, selected: one.id === chosen }, words);
    });
    const select = h("select", { onchange: () => (location.hash = path(select.value)) }, options);
    return h("label", {}, h("span", {}, label), select);
  };
  const path = (...ids) => `#/compare/${ids.map(encodeURIComponent).join("/")}`;
  return h("form", { class: "pickers" },
    picker("Before", before, (id) => path(id, after)),
    picker("After", after, (id) => path(before, id)));
}

function answer(difference) {
  const rows = [
    ["Wall time", difference.wall_ns, nanos],
    ["GPU busy", difference.gpu_busy, percent, points],
    ["Kernel time", difference.kernel_ns, nanos],
    ["Kernels executed", difference.kernels_executed, count],
    ["Waited for the GPU", difference.waited_ns, nanos],
    ["Peak device memory", difference.device_peak_bytes, bytes],
    ["Allocations", difference.allocations, count],
  ].filter(([, pair]) => pair);
  const numbers = table(
    [
      { label: "", show: ([label]) => label },
      { label: "Before", number: true, show: ([, pair, show]) => show(pair.before) },
      { label: "After", number: true, show: ([, pair, show]) => show(pair.after) },
      { label: "Change", number: true, show: ([, pair, , changed = change]) => changed(pair) },
    ],
    { caption: "The numbers of both sessions" },
  );
  numbers.update(rows);
  const kernels = kernelTable();
  kernels.update(difference.kernels);
  const links = h("p", { class: "about" },
    h("a", { href: sessionLink(difference.before) }, `report of ${difference.before}`), " · ",
    h("a", { href: sessionLink(difference.after) }, `report of ${difference.after}`));
  return [
    h("p", { class: "headline", id: "headline" }, sentence(difference.headline)),
    links,
    part("Where the difference is", split(difference)),
    part("Numbers", numbers.element),
    part("Kernels that changed", kernels.element),
  ];
}

const signed = (value) => (value > 0 ? `+${nanos(value)}` : nanos(value));

/** The parts of the difference as bars from a common middle: left is faster, right is slower. */
function split({ split: { gpu_ns, waiting_ns, host_ns } }) {
  const parts = [["GPU: kernels ran", gpu_ns], ["Waiting, no kernel ran", waiting_ns], ["Host: the rest", host_ns]].filter(([, value]) => value != null);
  const most = Math.max(...parts.map(([, value]) => Math.abs(value)), 1);
  const rows = parts.map(([label, value]) => {
    const bar = h("span", { class: value > 0 ? "bar slower" : "bar faster" });
    bar.style.width = `${(Math.abs(value) / most) * 50}%`;
    bar.style.marginLeft = value > 0 ? "50%" : `${50 - (Math.abs(value) / most) * 50}%`;
    return h("tr", {}, h("th", { scope: "row" }, label), h("td", { class: "number" }, signed(value)), h("td", { class: "bars", "aria-hidden": "true" }, bar));
  });
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Parts of the difference" },
    h("table", {}, h("caption", { class: "hidden" }, "Parts of the difference of the wall times"), h("tbody", {}, rows)));
}

function kernelTable() {
  const total = (one) => (one.total_ns ? one.total_ns.after - one.total_ns.before : null);
  const columns = [
    { label: "Kernel", value: (one) => one.name, show: (one) => name(one.name) },
    { label: "GPU time", number: true, value: total, show: (one) => (one.total_ns ? signed(total(one)) : "not timed") },
    { label: "before", number: true, show: (one) => nanos(one.total_ns?.before) },
    { label: "after", number: true, show: (one) => nanos(one.total_ns?.after) },
    { label: "Mean", number: true, show: (one) => (one.mean_ns ? `${nanos(one.mean_ns.before)} → ${nanos(one.mean_ns.after)}` : nanos(null)) },
    { label: "Calls", number: true, value: (one) => one.calls.after - one.calls.before, show: (one) => `${count(one.calls.before)} → ${count(one.calls.after)}` },
  ];
  return table(columns, {
    caption: "Kernels that changed, the largest change first",
    search: (one) => one.name,
    searchLabel: "Find a kernel",
    empty: "No kernel changed by more than one per cent.",
    most: 200,
  });
}
