// What each stream was given in the last seconds: a lane for each, a column for each twentieth of a second.
import { surface } from "./chart.js";
import { h, say } from "./dom.js";
import { bytes, count, nanos, percent } from "./units.js";

const LANE = 30;
const BAR = 22;
const KEPT_NS = 30e9;
const SPANS = [2, 5, 10, 30];
const HINT = "Height is the GPU time of what was launched, by what such launches took so far. Green below: copies. Amber above: somebody waited.";

/** The columns of all streams, kept while the page is open. */
export class Streams {
  constructor() {
    this.of = new Map();
  }

  add(sessions) {
    for (const session of sessions) {
      const known = this.of.get(session.id) ?? new Map();
      this.of.set(session.id, known);
      const oldest = (session.at_ns - KEPT_NS) / session.column_ns;
      for (const stream of session.streams) {
        const key = `${stream.pid}/${stream.device}/${stream.stream}`;
        const lane = known.get(key) ?? { pid: stream.pid, name: laneName(stream), columns: new Map() };
        known.set(key, lane);
        for (const column of stream.columns) lane.columns.set(column.nth, column);
      }
      for (const [key, lane] of known) {
        for (const nth of lane.columns.keys()) if (nth < oldest) lane.columns.delete(nth);
        if (lane.columns.size === 0) known.delete(key);
      }
    }
    for (const id of this.of.keys()) if (!sessions.some((session) => session.id === id)) this.of.delete(id);
  }
}

function laneName({ device, stream }) {
  const gpu = `GPU ${device ?? "?"}`;
  if (stream <= 1) return `${gpu} default stream`;
  return stream === 2 ? `${gpu} per-thread default stream` : `${gpu} stream 0x${stream.toString(16)}`;
}

/** The lanes of a session, or of one process of it. */
export function lanes(streams) {
  const view = { span: 10, lanes: [], session: null, under: null };
  const canvas = h("canvas", { class: "lanes", role: "img", "aria-label": "Streams in the last seconds" });
  const labels = h("div", { class: "labels" });
  const about = h("p", { class: "about" }, HINT);
  const buttons = SPANS.map((span) => h("button", { type: "button", "aria-pressed": String(span === view.span), onclick: () => zoom(span) }, `${span} s`));
  const zoom = (span) => {
    view.span = span;
    buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(SPANS[place] === span)));
    paint();
  };
  const paint = () => view.session && draw(canvas, view);
  canvas.addEventListener("pointermove", (event) => {
    view.under = { x: event.offsetX, y: event.offsetY };
    say(about, pointed(view, canvas) ?? HINT);
  });
  canvas.addEventListener("pointerleave", () => {
    view.under = null;
    say(about, HINT);
  });
  const element = h("div", {},
    h("div", { class: "buttons", role: "group", "aria-label": "How far back" }, buttons),
    h("div", { class: "tracks" }, labels, canvas),
    about);
  return {
    element,
    show(session, pid) {
      const all = [...(streams.of.get(session.id)?.values() ?? [])];
      view.lanes = all.filter((lane) => pid === null || lane.pid === pid).sort((a, b) => a.pid - b.pid || (a.name < b.name ? -1 : 1)).slice(0, 24);
      view.session = session;
      const names = view.lanes.map((lane) => `${lane.name} · ${lane.pid}`);
      if (labels.dataset.names !== names.join()) {
        labels.dataset.names = names.join();
        const several = new Set(view.lanes.map((lane) => lane.pid)).size > 1;
        labels.replaceChildren(...view.lanes.map((lane) => h("div", { title: `${lane.name}, process ${lane.pid}` }, lane.name, several && h("span", { class: "pid" }, `process ${lane.pid}`))));
        canvas.style.height = `${Math.max(1, view.lanes.length) * LANE}px`;
      }
      paint();
      if (view.under) say(about, pointed(view, canvas) ?? HINT);
    },
  };
}

/** From a column to its place on the canvas; the newest ends at the right. */
function scale({ session, span }, width) {
  const shown = (span * 1e9) / session.column_ns;
  const first = session.at_ns / session.column_ns - shown;
  return { shown, first, wide: width / shown, x: (nth) => ((nth - first) / shown) * width };
}

function draw(canvas, view) {
  const { paint, width, colour } = surface(canvas);
  const { first, wide, x } = scale(view, width);
  view.lanes.forEach((lane, place) => {
    const bottom = place * LANE + (LANE + BAR) / 2;
    paint.fillStyle = colour("--line");
    paint.fillRect(0, (place + 1) * LANE - 1, width, 1);
    for (const column of lane.columns.values()) {
      if (column.nth < first - 1) continue;
      const left = x(column.nth);
      const share = Math.min(1, column.kernel_ns / view.session.column_ns);
      // What is there but small is seen too.
      const high = column.launches > 0 ? Math.max(1.5, share * (BAR - 3)) : 0;
      paint.fillStyle = colour("--accent");
      paint.fillRect(left, bottom - 3 - high, wide + 0.3, high);
      if (column.bytes > 0) {
        paint.fillStyle = colour("--good");
        paint.fillRect(left, bottom - 3, wide + 0.3, 3);
      }
      if (column.waited_ns > 0) {
        paint.fillStyle = colour("--warn");
        paint.fillRect(left, bottom - BAR - 2, wide * Math.min(1, column.waited_ns / view.session.column_ns), 2);
      }
    }
  });
}

function pointed(view, canvas) {
  const lane = view.lanes[Math.floor(view.under.y / LANE)];
  if (!lane || !view.session) return null;
  const { first, shown } = scale(view, canvas.clientWidth);
  const nth = Math.floor(first + (view.under.x / canvas.clientWidth) * shown);
  const column = lane.columns.get(nth);
  const since = nanos(Math.max(0, view.session.at_ns - nth * view.session.column_ns));
  if (!column) return `${lane.name}, ${since} ago: nothing`;
  const { column_ns: length } = view.session;
  return `${lane.name}, ${since} ago, in ${nanos(length)}: ${count(column.launches)} launches, GPU about ${percent(column.kernel_ns / length)}, ${bytes(column.bytes)} copied and set, waited ${nanos(column.waited_ns)}`;
}
