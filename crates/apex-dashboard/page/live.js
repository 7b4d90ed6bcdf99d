// What runs now: how busy, how fast, how full, and which kernels.
import { Curve, draw, follow, surface } from "./chart.js";
import { h, name, part, say } from "./dom.js";
import { Streams, lanes } from "./streams.js";
import { table } from "./tables.js";
import { bytes, count, fitWords, flow, nanos, nothing, percent, rate } from "./units.js";

const MINUTE = 60e9;
const MEASURES = [
  { key: "busy", label: "GPU busy", show: percent, most: 1, tone: "--good", title: "Share of the time in which kernels ran" },
  { key: "launches", label: "Launches", show: rate, tone: "--accent", title: "Kernel and graph launches a second" },
  { key: "waited", label: "Waiting", show: percent, most: 1, tone: "--warn", title: "Time that threads waited for the GPU over the time; several threads may bring it above 100 %" },
  { key: "copied_bytes", label: "Copies", show: flow, tone: "--accent", title: "Bytes copied and set a second" },
  { key: "memory", label: "Device memory", show: bytes, tone: "--accent", title: "Device memory that is held" },
];

/** The last minute of every session and process, kept while the page is open whatever it shows. */
export const minute = {
  curves: new Map(),
  trends: new Map(),
  latest: null,
  streams: new Streams(),
  of(id, key) {
    const whole = `${id}/${key}`;
    if (!this.curves.has(whole)) this.curves.set(whole, new Curve(MINUTE));
    return this.curves.get(whole);
  },
  past({ sessions }) {
    for (const [id, { own, processes }] of Object.entries(sessions)) {
      for (const [of, moments] of [[id, own], ...Object.entries(processes).map(([number, all]) => [`${id}#${number}`, all])]) {
        for (const key of MEASURES.map((measure) => measure.key)) this.of(of, key).points = [];
        for (const [at, launches, busy, waited, copied_bytes] of moments) this.add(of, at, { launches, busy, waited, copied_bytes });
      }
    }
  },
  add(of, at, values) {
    for (const [key, value] of Object.entries(values)) this.of(of, key).add(at, value);
  },
  frame(frame) {
    this.latest = frame;
    const alive = new Set();
    this.streams.add(frame.sessions);
    for (const session of frame.sessions) {
      for (const [of, one] of [[session.id, session], ...session.processes.map((each) => [`${session.id}#${each.number}`, each])]) {
        alive.add(of);
        if (one.rates) this.add(of, session.at_ns, { ...one.rates, memory: one.memory_bytes });
      }
      for (const kernel of session.kernels) {
        if (kernel.rates) this.of(`${session.id}:${kernel.name}`, "kernel").add(session.at_ns, kernel.rates.busy ?? kernel.rates.calls);
        alive.add(`${session.id}:${kernel.name}`);
      }
    }
    for (const key of this.curves.keys()) {
      if (!alive.has(key.slice(0, key.lastIndexOf("/")))) this.curves.delete(key);
    }
  },
};

/** The view. */
export function live(main, _words, { listen }) {
  const view = { chosen: null, process: null };
  const heading = h("h1", {}, "Live");
  const about = h("p", { class: "about" });
  const soFar = h("p", { class: "about" });
  const tiles = MEASURES.map((measure) => tile(measure, view));
  const processes = processTable(view, () => show(minute.latest));
  const devices = deviceTable();
  const kernels = kernelTable(view);
  const devicePart = part("Devices", devices.element);
  const streams = lanes(minute.streams);
  const running = h("div", {},
    soFar,
    h("div", { class: "tiles" }, tiles.map((one) => one.element)),
    part("Programs", processes.element),
    part("Kernels by GPU time", kernels.element),
    part("Streams in the last seconds", streams.element),
    devicePart);
  const idle = h("div", { class: "idle" });
  main.append(heading, about, running, idle);

  let wanted = false;
  function show(frame) {
    if (!frame) return;
    about.removeAttribute("aria-busy");
    const any = frame.sessions.length > 0;
    running.hidden = !any;
    idle.hidden = any;
    if (!any) return say(about, "No program of yours runs under apex now."), empty(idle, frame.ended);
    choose(view, frame);
    const session = frame.sessions.find((one) => one.id === view.chosen);
    const one = session.processes.find((each) => each.number === view.process) ?? session;
    say(about, aboutWords(session, one));
    linkSoFar(soFar, session.id);
    for (const each of tiles) each.show(session, one);
    processes.update(frame.sessions.flatMap((each) => [{ session: each }, ...each.processes.map((process) => ({ session: each, process }))]));
    streams.show(session, view.process == null ? null : one.pid);
    devices.update(frame.devices);
    devicePart.hidden = frame.devices.length === 0;
    kernels.update(session.kernels.map((kernel) => ({ session, kernel })));
  }

  const later = () => {
    // One picture for all frames that came since the last.
    if (wanted) return;
    wanted = true;
    requestAnimationFrame(() => {
      wanted = false;
      show(minute.latest);
    });
  };
  say(about, "Waiting for the first look…");
  about.setAttribute("aria-busy", "true");
  running.hidden = true;
  if (minute.latest) show(minute.latest);
  return listen({ frame: later, repaint: later });
}

/** Keeps the choice while what was chosen runs; else the first session is chosen. */
function choose(view, frame) {
  const session = frame.sessions.find((one) => one.id === view.chosen);
  if (!session) [view.chosen, view.process] = [frame.sessions[0].id, null];
  else if (!session.processes.some((one) => one.number === view.process)) view.process = null;
}

function aboutWords(session, one) {
  const words = [one === session ? session.command : `process ${one.pid}: ${one.command}`];
  words.push(`for ${nanos(session.at_ns)}`, `${count(session.kernels_executed)} kernels so far`);
  if (session.launch_bound != null) words.push(`GPU waited for launches ${percent(session.launch_bound)}`);
  if (session.soft) words.push("software GPU: times are this CPU's");
  if (session.lost > 0) words.push(`${count(session.lost)} events lost: counts are at least`);
  if (session.errors > 0) words.push(`the driver refused ${count(session.errors)} calls`);
  if (session.silent) words.push("no news: its apex run is stopped or gets no processor");
  return words.join(" · ");
}

/** Advice needs every event of the session, so it is worked out for who asks. */
function linkSoFar(place, id) {
  if (place.dataset.of === id) return;
  place.dataset.of = id;
  const link = (tab, words) => h("a", { href: `#/session/${encodeURIComponent(id)}/${tab}` }, words);
  place.replaceChildren("So far: ", link("report", "its report"), " · ", link("advice", "advice, with what it saves"), " · ", link("timeline", "its timeline"));
}

function empty(idle, ended) {
  if (idle.dataset.ended === String(ended)) return;
  idle.dataset.ended = String(ended);
  const last = ended && h("p", {}, "The last one has ended: ", h("a", { href: `#/session/${encodeURIComponent(ended)}` }, "its report"), ".");
  idle.replaceChildren(
    h("p", {}, "Start one in a terminal, and it appears here within a second:"),
    h("pre", {}, "apex run -- python train.py"),
    last || h("p", {}, "What ran before is under ", h("a", { href: "#/sessions" }, "Sessions"), "."));
}

/** A number with its last minute below. */
function tile(measure, view) {
  const value = h("span", { class: "value" }, nothing);
  const peak = h("span", { class: "peak" });
  const canvas = h("canvas", { role: "img" });
  const element = h("div", { class: "tile", title: measure.title },
    h("span", { class: "label" }, measure.label), value, peak, canvas);
  let under = null;
  follow(canvas, (place) => {
    under = place;
    paint();
  });
  const curve = () => minute.of(view.process == null ? view.chosen : `${view.chosen}#${view.process}`, measure.key);
  const paint = () => draw(canvas, curve(), { ...measure, most: measure.most && Math.max(measure.most, curve().peak), under });
  return {
    element,
    show(session, one) {
      const now = measure.key === "memory" ? one.memory_bytes : one.rates?.[measure.key];
      const most = measure.key === "memory" && one === session ? session.memory_peak_bytes : curve().peak;
      say(value, now == null ? "…" : measure.show(now));
      say(peak, measure.key === "memory" && one === session ? `peak ${bytes(most)}` : `peak ${measure.show(most)} in 60 s`);
      canvas.setAttribute("aria-label", `${measure.label} over the last minute: now ${value.textContent}, ${peak.textContent}`);
      paint();
    },
  };
}

function processTable(view, changed) {
  const rates = ({ session, process }) => (process ?? session).rates;
  const columns = [
    { label: "Program", show: (row) => program(row, view, changed) },
    { label: "pid", number: true, show: ({ session, process }) => String(process?.pid ?? session.apex_pid), title: "Process id; of a session that of its apex run" },
    { label: "GPU busy", number: true, value: (row) => rates(row)?.busy, show: (row) => percent(rates(row)?.busy) },
    { label: "Launches", number: true, value: (row) => rates(row)?.launches, show: (row) => rate(rates(row)?.launches) },
    { label: "Waiting", number: true, value: (row) => rates(row)?.waited, show: (row) => percent(rates(row)?.waited) },
    { label: "Copies", number: true, value: (row) => rates(row)?.copied_bytes, show: (row) => flow(rates(row)?.copied_bytes) },
    { label: "Memory", number: true, value: ({ session, process }) => (process ?? session).memory_bytes, show: ({ session, process }) => bytes((process ?? session).memory_bytes) },
  ];
  return table(columns, {
    caption: "Programs that run under apex, each with its processes",
    search: ({ session, process }) => `${session.id} ${session.command} ${process?.command ?? ""} ${process?.pid ?? session.apex_pid}`,
    searchLabel: "Find a program",
    level: ({ process }) => (process ? "inner" : "outer"),
    pick: ({ session, process }) => {
      [view.chosen, view.process] = [session.id, process?.number ?? null];
      changed();
    },
    picked: ({ session, process }) => view.chosen === session.id && view.process === (process?.number ?? null),
  });
}

/** The name of a row, as a button for those who have no pointer. */
function program({ session, process }, view, changed) {
  const words = process ? process.command : session.command;
  const choose = (event) => {
    event.stopPropagation();
    [view.chosen, view.process] = [session.id, process?.number ?? null];
    changed();
  };
  return h("button", { type: "button", class: "plain cut", title: words, onclick: choose }, words || "(not yet known)");
}

function kernelTable(view) {
  const columns = [
    { label: "Kernel", value: ({ kernel }) => kernel.name, show: ({ kernel }) => name(kernel.name) },
    { label: "Time", number: true, value: ({ kernel }) => kernel.share, show: ({ kernel }) => percent(kernel.share), title: "Share of the session's GPU time so far" },
    { label: "Now", number: true, value: ({ kernel }) => kernel.rates?.busy, show: ({ kernel }) => percent(kernel.rates?.busy), title: "Share of this moment in which it ran" },
    { label: "Last minute", show: () => "", paint: (row, cell) => trend(row, cell) },
    { label: "Calls", number: true, value: ({ kernel }) => kernel.calls, show: ({ kernel }) => count(kernel.calls) },
    { label: "Calls now", number: true, value: ({ kernel }) => kernel.rates?.calls, show: ({ kernel }) => rate(kernel.rates?.calls) },
    { label: "Mean", number: true, value: ({ kernel }) => kernel.mean_ns, show: ({ kernel }) => nanos(kernel.mean_ns), title: "GPU time of one execution" },
    { label: "Prediction", number: true, value: ({ kernel }) => kernel.predicted?.median_error, show: ({ kernel }) => (kernel.predicted ? `±${percent(kernel.predicted.median_error)}` : nothing), title: "Median error of its predicted times, relative to the measured ones" },
    { label: "Occupancy", value: ({ kernel }) => kernel.fit?.occupancy, show: ({ kernel }) => fitWords(kernel.fit), title: "Share of a multiprocessor's warps that fit, and what limits it" },
  ];
  return table(columns, {
    caption: "Kernels of the chosen session",
    search: ({ kernel }) => kernel.name,
    searchLabel: "Find a kernel",
    empty: "No kernel was launched yet.",
  });
}

function trend({ session, kernel }, cell) {
  let canvas = cell.firstElementChild;
  if (!canvas) {
    canvas = h("canvas", { class: "trend", "aria-hidden": "true" });
    cell.append(canvas);
  }
  const curve = minute.of(`${session.id}:${kernel.name}`, "kernel");
  if (curve.points.length > 1) draw(canvas, curve, { tone: "--good" });
  else surface(canvas);
}

function deviceTable() {
  const columns = [
    { label: "Device", show: ({ name: words, uuid }) => h("span", { title: uuid }, words) },
    { label: "Processes", number: true, show: (one) => count(one.processes) },
    { label: "GPU busy", number: true, show: (one) => percent(one.rates?.busy) },
    { label: "Launches", number: true, show: (one) => rate(one.rates?.launches) },
    { label: "Copies", number: true, show: (one) => flow(one.rates?.copied_bytes) },
    { label: "Memory held", number: true, show: (one) => bytes(one.memory_bytes) },
    { label: "of", number: true, show: (one) => bytes(one.memory_of_bytes) },
  ];
  return table(columns, { caption: "Devices with what all sessions do on them" });
}
