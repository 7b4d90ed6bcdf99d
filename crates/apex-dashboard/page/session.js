// One session that ran, or runs: the answers first, then every table of its report.
import { breakdown } from "./breakdown.js";
import { against } from "./compare.js";
import { roofline } from "./roofline.js";
import { scatter } from "./scatter.js";
import { ask, h, name, note, part, pending, sentence } from "./dom.js";
import { table } from "./tables.js";
import { sessionLink } from "./sessions.js";
import { timeline } from "./timeline.js";
import { bytes, count, exitWords, fitWords, moment, nanos, nothing, percent, shape } from "./units.js";

const TABS = {
  report: ["Report", report],
  advice: ["Advice", advice],
  timeline: ["Timeline", (summary, _advised, signal) => [timeline(summary, signal)]],
  breakdown: ["Breakdown", (summary) => [breakdown(summary)]],
  roofline: ["Roofline", roofline],
  prediction: ["Prediction", prediction],
  downloads: ["Downloads", downloads],
};

export function session(main, [id, tab], { signal, failed }) {
  main.append(h("h1", {}, "Session"), pending("Reading the session…"));
  const path = `api/sessions/${encodeURIComponent(id ?? "")}`;
  // Advice needs every event of the session: the report does not wait for it.
  const advised = ask(`${path}/advice`, signal).catch((error) => ({ error }));
  ask(`${path}/report`, signal)
    .then((summary) => {
      const chosen = TABS[tab] ? tab : "report";
      main.replaceChildren(...head(summary), tabs(id, chosen), h("div", { id: "tab" }, TABS[chosen][1](summary, advised, signal)));
    })
    .catch(failed);
}

function head(summary) {
  const words = [moment(summary.started_unix_ns), nanos(summary.wall_ns), exitWords(summary.exit, summary.running)];
  if (summary.devices[0]) words.push(summary.devices.map((device) => device.name).join(", "));
  if (summary.driver) words.push(`CUDA ${summary.driver}`);
  if (summary.soft) words.push("software GPU: times are this CPU's");
  return [
    h("h1", { class: "command" }, summary.command.join(" ") || summary.session),
    h("p", { class: "about" }, words.join(" · ")),
  ];
}

function tabs(id, chosen) {
  const link = ([tab, [label]]) =>
    h("a", { href: sessionLink(id, tab), "aria-current": tab === chosen && "page" }, label);
  return h("nav", { class: "tabs", "aria-label": "Parts of the session" }, Object.entries(TABS).map(link));
}

function report(summary, advised, signal) {
  const lists = [
    answers(summary, advised, signal),
    part("Numbers", facts(summary)),
    part("Kernels by GPU time", kernels(summary.kernels)),
    part("Launch shapes", configs(summary.configs)),
    part("Copies", copies(summary)),
    part("Memory", memory(summary.memory)),
    part("Driver functions by time", functions(summary.functions)),
    part("Streams", streams(summary.streams)),
    part("Threads", threads(summary.threads)),
  ];
  if (summary.errors.length > 0) lists.push(part("Errors that the driver returned", errors(summary.errors)));
  if (summary.notes.length + summary.unrecorded.length > 0) {
    lists.push(part("Notes", h("ul", {}, [...summary.unrecorded, ...summary.notes].map((words) => h("li", {}, words)))));
  }
  return lists;
}

/** The four questions that a stranger has, each with its answer. */
function answers(summary, advised, signal) {
  const id = summary.session;
  const heaviest = summary.kernels[0];
  const cost = heaviest
    ? [h("b", {}, heaviest.name), heaviest.gpu ? ` takes ${percent(heaviest.gpu.share)} of the GPU time: ${count(heaviest.calls)} executions of ${nanos(heaviest.gpu.mean_ns)} each.` : ` was executed most often, ${count(heaviest.calls)} times. Kernels were not timed.`]
    : ["No kernel was executed."];
  const { gpu_busy: busy, launch_bound: bound } = summary;
  const waits = [];
  if (busy) waits.push(`The GPU was busy ${busy.upper_bound ? "at most" : "about"} ${percent(busy.share)} of ${nanos(summary.gpu_phase_ns)}.`);
  if (bound) waits.push(` It waited for launches ${percent(bound.share)} of the time.`);
  if (waits.length === 0) waits.push("Not known: no launch was timed.");
  const waitsMore = h("span");
  const advice = h("span", {}, pending("Looking at every event…"));
  advised.then((found) => {
    if (found.error) return advice.replaceChildren(`Not known: ${found.error.message}.`);
    if (found.bound) waitsMore.replaceChildren(` What bounds the program is ${found.bound.sentence}.`);
    const worth = found.findings.filter((one) => one.worth_it);
    const rest = h("a", { href: sessionLink(id, "advice") }, worth.length > 1 ? `and ${worth.length - 1} more` : "all findings");
    if (worth.length === 0) advice.replaceChildren("No change that is worth it was found. ", rest);
    else advice.replaceChildren(h("b", {}, sentence(worth[0].action)), ` That saves ${saving(worth[0])}. `, rest);
  });
  const differs = h("span", {}, pending("Comparing…"));
  const link = (before, words) => h("a", { href: `#/compare/${encodeURIComponent(before)}/${encodeURIComponent(id)}` }, words);
  against(id, signal)
    .then((found) => {
      if (found) differs.replaceChildren(h("b", {}, found.headline), ` That is against ${moment(found.before.started_unix_ns)}. `, link(found.before.id, "all of it"));
      else differs.replaceChildren("No earlier session of this command is kept. ", link("", "Compare it with another."));
    })
    .catch((error) => differs.replaceChildren(`Not known: ${error.message}.`));
  const row = (question, ...answer) => [h("dt", {}, question), h("dd", {}, answer)];
  return h("dl", { class: "answers", id: "answers" },
    row("Which kernel costs most?", cost),
    row("Does the GPU wait for the host?", waits, waitsMore),
    row("What can be done?", advice),
    row("How does it differ from before?", differs));
}

const saving = (finding) => {
  const { low, high, basis } = finding.gain;
  return `${percent(finding.saving)} of the program's time (${percent(low * finding.weight)} to ${percent(high * finding.weight)}, ${basis})`;
};

/** Figures as the report has them, each under its name. */
function facts(summary) {
  const { gpu_busy: busy, launch_bound: bound, memory, syncs, loads, own } = summary;
  const rows = [
    ["Wall time", nanos(summary.wall_ns), "From the start of the command to its end", "wall_ns"],
    ["GPU phase", nanos(summary.gpu_phase_ns), "From the first to the end of the last CUDA call", "gpu_phase_ns"],
    ["GPU busy", percent(busy?.share), "Share of the GPU phase in which kernels ran", "gpu_busy"],
    ["Launch-bound", percent(bound?.share), "Share of the GPU phase in which the GPU waited for launches", "launch_bound"],
    ["Kernels executed", count(summary.kernels_executed), "Plain launches, and graph launches times their kernels", "kernels_executed"],
    ["Launches", count(summary.launches), "Plain launches that the driver accepted", "launches"],
    ["Graph launches", count(summary.graph_launches), null, "graph_launches"],
    ["Peak device memory", bytes(memory.device_peak_bytes), "Most bytes held at once", "device_peak_bytes"],
    ["Waited for the GPU", nanos(syncs.waited_ns + syncs.blocking_copies_ns), `In ${count(syncs.count)} synchronisations and ${count(syncs.blocking_copies)} blocking copies, by all threads`, "waited"],
    ["Loading", nanos(loads.host_ns + loads.first_launch_ns), `${count(loads.count)} modules, and the first launches of ${count(loads.first_launches)} kernels`, "loading"],
    ["Processes", count(summary.processes), "That called CUDA", "processes"],
    ["apex: events", count(own.events), `${count(own.lost)} lost, ${count(own.damaged)} damaged, ${count(own.failures)} failures`, "events"],
    ["apex: cost", own.share_of_wall == null ? nothing : percent(own.share_of_wall), "Share of the wall time that recording took", "share_of_wall"],
  ];
  const fact = ([label, value, about, key]) =>
    h("div", { class: "fact", title: about }, h("dt", {}, label), h("dd", { "data-fact": key }, value));
  return h("dl", { class: "facts" }, rows.map(fact));
}

const shown = (columns, options, rows) => {
  const made = table(columns, { most: 200, ...options });
  made.update(rows);
  return made.element;
};

const gpuColumns = [
  { label: "Time", number: true, value: (one) => one.gpu?.share, show: (one) => percent(one.gpu?.share), title: "Share of the session's GPU time" },
  { label: "Total", number: true, value: (one) => one.gpu?.total_ns, show: (one) => nanos(one.gpu?.total_ns) },
  { label: "Calls", number: true, value: (one) => one.calls, show: (one) => count(one.calls) },
  { label: "Mean", number: true, value: (one) => one.gpu?.mean_ns, show: (one) => nanos(one.gpu?.mean_ns), title: "GPU time of one execution" },
  { label: "Timed", number: true, value: (one) => one.gpu?.timed, show: (one) => count(one.gpu?.timed), title: "Executions that were timed" },
  { label: "Occupancy", value: (one) => one.fit?.occupancy, show: (one) => fitWords(one.fit), title: "Share of a multiprocessor's warps that fit, and what limits it" },
];
const kernelColumn = { label: "Kernel", value: (one) => one.name, show: (one) => name(one.name) };

const kernels = (rows) =>
  shown([kernelColumn, ...gpuColumns,
    { label: "Registers", number: true, value: (one) => one.registers, show: (one) => count(one.registers), title: "For each thread" },
    { label: "Shared", number: true, value: (one) => one.static_shared, show: (one) => bytes(one.static_shared), title: "Static shared memory of a block" },
    { label: "Launching", number: true, value: (one) => one.host_ns, show: (one) => nanos(one.host_ns), title: "Time in the driver's launch call" },
  ], { caption: "Kernels by GPU time", search: (one) => one.name, searchLabel: "Find a kernel", empty: "No kernel was executed." }, rows);

const configs = (rows) =>
  shown([kernelColumn, { label: "Shape", show: (one) => shape(one) }, ...gpuColumns,
    { label: "Dynamic shared", number: true, value: (one) => one.dynamic_shared, show: (one) => bytes(one.dynamic_shared) },
  ], { caption: "Kernels by launch shape", search: (one) => `${one.name} ${shape(one)}`, searchLabel: "Find a shape", empty: "No kernel was launched plainly.", most: 50 }, rows);

const copies = (summary) =>
  shown([
    { label: "Direction", show: (one) => one.direction },
    { label: "Copies", number: true, show: (one) => count(one.count) },
    { label: "Bytes", number: true, show: (one) => bytes(one.bytes) },
    { label: "Pageable", number: true, show: (one) => bytes(one.pageable_bytes), title: "From or to host memory that is not pinned" },
    { label: "Time in the driver", number: true, show: (one) => nanos(one.host_ns) },
  ], { caption: "Copies by direction", empty: "Nothing was copied." }, summary.copies);

const memory = (all) =>
  shown([
    { label: "Kind", show: (one) => one.kind },
    { label: "Peak", number: true, value: (one) => one.peak_bytes, show: (one) => bytes(one.peak_bytes) },
    { label: "Held at the end", number: true, show: (one) => bytes(one.live_bytes) },
    { label: "Allocations", number: true, value: (one) => one.allocations, show: (one) => count(one.allocations) },
    { label: "Frees", number: true, show: (one) => count(one.frees) },
    { label: "Allocated", number: true, show: (one) => bytes(one.allocated_bytes), title: "Bytes of all allocations together" },
  ], { caption: "Memory by kind of allocation", empty: "Nothing was allocated." }, all.kinds);

const functions = (rows) =>
  shown([
    { label: "Function", value: (one) => one.name, show: (one) => one.name },
    { label: "Calls", number: true, value: (one) => one.calls, show: (one) => count(one.calls) },
    { label: "Time", number: true, value: (one) => one.host_ns, show: (one) => nanos(one.host_ns) },
  ], { caption: "Driver functions by the time spent in them", search: (one) => one.name, searchLabel: "Find a function", most: 50 }, rows);

const streams = (rows) =>
  shown([
    { label: "Stream", show: (one) => (one.stream <= 1 ? "default" : `0x${one.stream.toString(16)}`) },
    { label: "pid", number: true, show: (one) => String(one.pid) },
    { label: "Launches", number: true, value: (one) => one.launches, show: (one) => count(one.launches) },
    { label: "Copies and sets", number: true, value: (one) => one.transfers, show: (one) => count(one.transfers) },
    { label: "Bytes", number: true, value: (one) => one.bytes, show: (one) => bytes(one.bytes) },
    { label: "Waited for it", number: true, value: (one) => one.waited_ns, show: (one) => nanos(one.waited_ns) },
  ], { caption: "Streams by their launches", most: 50, empty: "No stream was used." }, rows);

const threads = (rows) =>
  shown([
    { label: "Thread", show: (one) => String(one.tid) },
    { label: "pid", number: true, show: (one) => String(one.pid) },
    { label: "CUDA calls", number: true, value: (one) => one.calls, show: (one) => count(one.calls) },
    { label: "Launches", number: true, value: (one) => one.launches, show: (one) => count(one.launches) },
    { label: "In the driver", number: true, value: (one) => one.host_ns, show: (one) => nanos(one.host_ns) },
    { label: "Waiting", number: true, value: (one) => one.waited_ns, show: (one) => nanos(one.waited_ns), title: "In synchronisations and blocking copies" },
  ], { caption: "Threads by their time in the driver", most: 50 }, rows);

const errors = (rows) =>
  shown([
    { label: "Function", show: (one) => one.function },
    { label: "Error", show: (one) => `${one.name || "error"} (${one.result})` },
    { label: "Times", number: true, show: (one) => count(one.count) },
  ], { caption: "Errors that the driver returned" }, rows);

function advice(_summary, advised) {
  const list = h("div", {}, pending("Looking at every event…"));
  advised.then((found) => {
    if (found.error) return list.replaceChildren(note(`No advice: ${found.error.message}.`));
    const worth = found.findings.filter((one) => one.worth_it);
    const well = found.findings.filter((one) => !one.worth_it && one.severity === "good" && !one.holds_for);
    const rest = found.findings.filter((one) => !worth.includes(one) && !well.includes(one));
    const bound = found.bound && note(`What bounds the program is ${found.bound.sentence}.`);
    list.replaceChildren(
      ...[bound].filter(Boolean),
      part("Worth doing, what saves most first", worth.length > 0 ? h("ol", { class: "findings" }, worth.map(finding)) : note("No change saves 1 % of the program's time.")),
      ...(well.length > 0 ? [part("Well done", h("ul", { class: "findings" }, well.map(finding)))] : []),
      ...(rest.length > 0 ? [part("Saves less, or holds for another GPU", h("ul", { class: "findings" }, rest.map(finding)))] : []));
  });
  return [list];
}

function finding(one) {
  const gain = one.saving > 0 && h("span", { class: "saves" }, `saves ${saving(one)}`);
  return h("li", { class: `is-${one.severity}` },
    h("p", { class: "what" }, h("span", { class: "severity" }, one.severity), one.kernel && [h("span", { class: "of" }, name(one.kernel)), ": "], one.kernel ? one.what : sentence(one.what)),
    h("p", {}, sentence(one.why), one.holds_for && ` This holds for ${one.holds_for}.`),
    h("p", { class: "action" }, sentence(one.action), " ", gain));
}

function prediction(summary) {
  const said = summary.predicted;
  if (!said) return [note("Nothing was predicted: no launch was timed.")];
  const facts = [
    ["Timed launches", count(said.timed)],
    ["Kernels with shapes", count(said.configurations)],
    ["Median error", percent(said.median_error)],
    ["Within 10 %", percent(said.within_10_percent)],
    ["In the 80 % interval", percent(said.in_interval)],
    ["Trained models", said.with_models ? "used" : "none: from measured times alone"],
  ];
  const by = shown([
    { label: "Said by", show: (one) => one.source },
    { label: "Launches", number: true, show: (one) => count(one.timed) },
    { label: "Median error", number: true, show: (one) => percent(one.median_error) },
  ], { caption: "Predictions by the part that said them" }, said.by);
  return [
    note("Each timed launch was predicted before its time was learned; the error is relative to the measured time."),
    h("dl", { class: "facts" }, facts.map(([label, value]) => h("div", { class: "fact" }, h("dt", {}, label), h("dd", {}, value)))),
    ...foretold(summary.kernels.filter((kernel) => kernel.predicted)),
    part("By what said it", by),
  ];
}

function foretold(kernels) {
  if (kernels.length === 0) return [];
  const rows = shown([
    kernelColumn,
    { label: "Predicted", number: true, value: (one) => one.predicted.predicted_ns, show: (one) => nanos(one.predicted.predicted_ns), title: "Mean of its timed launches" },
    { label: "Measured", number: true, value: (one) => one.predicted.measured_ns, show: (one) => nanos(one.predicted.measured_ns), title: "Mean of its timed launches" },
    { label: "Median error", number: true, value: (one) => one.predicted.median_error, show: (one) => percent(one.predicted.median_error) },
    { label: "Launches", number: true, value: (one) => one.predicted.timed, show: (one) => count(one.predicted.timed) },
  ], { caption: "Predicted beside measured, by kernel", search: (one) => one.name, searchLabel: "Find a kernel" }, kernels);
  return [part("Predicted beside measured", scatter(kernels), rows)];
}

const EXPORTS = [
  ["perfetto", "Perfetto", "A trace for ui.perfetto.dev"],
  ["chrome", "Chrome", "A trace in Chrome's JSON form, which most viewers read"],
  ["parquet", "Parquet", "All events in one file, for pandas, Polars or DuckDB"],
  ["csv", "CSV", "One event a line, with a heading"],
  ["ndjson", "NDJSON", "One event a line, each a JSON object"],
  ["json", "JSON", "One document: the session, its summary and every event"],
];

function downloads(summary) {
  const path = `api/sessions/${encodeURIComponent(summary.session)}`;
  const row = ([format, label, about]) =>
    h("tr", {}, h("th", { scope: "row" }, h("a", { href: `${path}/export?format=${format}`, download: true }, label)), h("td", {}, about));
  return [
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Downloads" },
      h("table", {}, h("caption", { class: "hidden" }, "Downloads"), h("tbody", {}, EXPORTS.map(row)))),
    note("The same as: ", h("code", {}, `apex export --format FORMAT ${summary.session}`)),
  ];
}
