// A session over time: what each thread called, what each stream ran, what memory was held. The server draws no finer
// than the picture has columns, so a session of any length is one small answer; zooming asks again.
import { follow, surface } from "./chart.js";
import { ask, h, note, say } from "./dom.js";
import { bytes, count, nanos, percent } from "./units.js";

const LANE = 30;
const BAR = 20;
const LEGEND = [["--accent", "kernels and launches"], ["--warn", "waiting"], ["--good", "copies"], ["--bad", "loading"], ["--soft", "other calls, memory held"]];
const TONES = { gpu: "--accent", launch: "--accent", "graph-launch": "--accent", sync: "--warn", copy: "--good", set: "--good", load: "--bad" };

export function timeline(summary, signal) {
  const whole = [0, Math.max(summary.wall_ns, 1)];
  const view = { stretch: whole, drawn: null, from: null, under: null };
  const canvas = h("canvas", { class: "lanes", tabindex: 0, role: "img", "aria-label": "Timeline: threads, streams and memory" });
  const labels = h("div", { class: "labels" });
  const about = h("p", { class: "about", role: "status", "aria-busy": "true" });
  const where = h("p", { class: "about", "aria-live": "polite" });
  const buttons = [["In", () => zoom(0.5)], ["Out", () => zoom(2)], ["Earlier", () => move(-0.5)], ["Later", () => move(0.5)], ["All", () => show(whole)]]
    .map(([label, act]) => h("button", { type: "button", onclick: act }, label));

  function clamped([from, to]) {
    const length = Math.min(Math.max(to - from, 1000), whole[1]);
    const start = Math.min(Math.max(from, 0), whole[1] - length);
    return [Math.round(start), Math.round(start + length)];
  }

  let latest = 0;
  function show(stretch) {
    view.stretch = clamped(stretch);
    const [from, to] = view.stretch;
    latest += 1;
    about.setAttribute("aria-busy", "true");
    const mine = latest;
    const columns = Math.max(100, Math.round(canvas.clientWidth || 1000));
    say(where, `${nanos(from)} to ${nanos(to)} since the start: ${nanos(to - from)} of ${nanos(whole[1])}`);
    ask(`api/sessions/${encodeURIComponent(summary.session)}/timeline?from=${from}&to=${to}&columns=${columns}`, signal)
      .then((drawn) => {
        if (mine !== latest) return;
        about.removeAttribute("aria-busy");
        view.drawn = drawn;
        const several = new Set(drawn.tracks.map((track) => track.pid)).size > 1;
        labels.replaceChildren(...drawn.tracks.map((track) => h("div", { title: `${track.name}, process ${track.pid}` }, h("span", {}, track.name), several && h("span", { class: "pid" }, `process ${track.pid}`))));
        canvas.style.height = `${Math.max(1, drawn.tracks.length) * LANE}px`;
        say(about, drawn.tracks.length === 0 ? "Nothing happened here." : hint(drawn));
        paint();
      })
      .catch((error) => signal.aborted || say(about, `The timeline cannot be shown: ${error.message}.`));
  }

  const length = () => view.stretch[1] - view.stretch[0];
  const at = (place) => view.stretch[0] + place * length();
  const zoom = (factor, place = 0.5) => {
    const middle = at(place);
    show([middle - place * length() * factor, middle + (1 - place) * length() * factor]);
  };
  const move = (share) => show([view.stretch[0] + share * length(), view.stretch[1] + share * length()]);
  const paint = () => view.drawn && draw(canvas, view);

  follow(canvas, (place) => {
    view.under = place;
    paint();
  });
  canvas.addEventListener("pointermove", (event) => view.drawn && say(about, pointed(view, event, canvas) ?? hint(view.drawn)));
  canvas.addEventListener("pointerdown", (event) => {
    view.from = event.offsetX / canvas.clientWidth;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", (event) => {
    const [one, other] = [view.from, event.offsetX / canvas.clientWidth].sort((a, b) => a - b);
    view.from = null;
    if (other - one > 0.005) show([at(one), at(other)]);
    else paint();
  });
  canvas.addEventListener("dblclick", (event) => zoom(0.5, event.offsetX / canvas.clientWidth));
  canvas.addEventListener("wheel", (event) => {
    // Without a key held the wheel scrolls the page, as it does everywhere.
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.7 : 1.4, event.offsetX / canvas.clientWidth);
  }, { passive: false });
  const keys = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25), 0: () => show(whole), Home: () => show(whole) };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  const resized = new ResizeObserver(() => {
    if (!signal.aborted) paint();
  });
  resized.observe(canvas);
  signal.addEventListener("abort", () => resized.disconnect());
  requestAnimationFrame(() => show(whole));
  return h("div", { class: "timeline" },
    h("div", { class: "buttons" }, buttons),
    where,
    h("ul", { class: "legend" }, LEGEND.map(swatch)),
    h("div", { class: "tracks" }, labels, canvas),
    about,
    note("Streams show the launches that were timed; only with --timing full are these all."));
}

function swatch([tone, words]) {
  const patch = h("span");
  patch.style.background = `var(${tone})`;
  return h("li", {}, patch, words);
}

const hint = ({ more_tracks: more }) =>
  `Drag over a stretch to zoom into it; keys + − ← → 0 do the same.${more > 0 ? ` ${count(more)} more tracks are left out.` : ""}`;

function draw(canvas, view) {
  const { paint, width, height, colour } = surface(canvas);
  const { tracks, from_ns: from, to_ns: to } = view.drawn;
  const x = (time) => ((time - from) / (to - from)) * width;
  tracks.forEach((track, place) => {
    const top = place * LANE + (LANE - BAR) / 2;
    paint.fillStyle = colour("--line");
    paint.fillRect(0, (place + 1) * LANE - 1, width, 1);
    if (track.kind === "memory") return memory(paint, track, { x, top, width, colour });
    for (const slice of track.slices) {
      const left = x(slice.start_ns);
      const wide = Math.max(1, x(slice.start_ns + slice.length_ns) - left);
      paint.fillStyle = colour(TONES[slice.category] ?? "--soft");
      // What stands for several is as strong as it is covered.
      paint.globalAlpha = slice.count === 1 ? 0.85 : 0.25 + 0.6 * Math.min(1, slice.covered_ns / Math.max(1, slice.length_ns));
      paint.fillRect(left, top, wide, BAR);
      paint.globalAlpha = 1;
      if (slice.count === 1 && wide > 60) label(paint, view.drawn.names[slice.name], { left: Math.max(0, left), top, wide: Math.min(wide, width), colour });
    }
  });
  if (view.from !== null && view.under !== null) {
    paint.fillStyle = colour("--accent");
    paint.globalAlpha = 0.15;
    paint.fillRect(Math.min(view.from, view.under) * width, 0, Math.abs(view.under - view.from) * width, height);
    paint.globalAlpha = 1;
  }
}

function label(paint, words, { left, top, wide, colour }) {
  paint.save();
  paint.beginPath();
  paint.rect(left, top, wide - 6, BAR);
  paint.clip();
  paint.fillStyle = colour("--ground");
  paint.font = `12px ${colour("--font")}`;
  paint.fillText(words, left + 5, top + 14);
  paint.restore();
}

function memory(paint, track, { x, top, width, colour }) {
  const most = track.held.reduce((all, [, held]) => Math.max(all, held), 1);
  paint.fillStyle = colour("--soft");
  paint.globalAlpha = 0.5;
  track.held.forEach(([time, held], place) => {
    const left = Math.max(0, x(time));
    const right = Math.min(width, place + 1 < track.held.length ? x(track.held[place + 1][0]) : width);
    const high = (held / most) * BAR;
    paint.fillRect(left, top + BAR - high, Math.max(0, right - left), high);
  });
  paint.globalAlpha = 1;
}

/** What lies under the pointer, in words. */
function pointed(view, event, canvas) {
  const { tracks, names, from_ns: from, to_ns: to } = view.drawn;
  const track = tracks[Math.floor(event.offsetY / LANE)];
  if (!track) return null;
  const dot = (to - from) / canvas.clientWidth;
  const time = from + event.offsetX * dot;
  if (track.kind === "memory") {
    const held = track.held.filter(([since]) => since <= time).at(-1);
    return `${track.name} at ${nanos(time)}: ${bytes(held?.[1] ?? 0)}`;
  }
  const slice = track.slices.find((one) => one.start_ns - dot <= time && time <= one.start_ns + one.length_ns + dot);
  if (!slice) return `${track.name} at ${nanos(time)}: nothing`;
  const name = names[slice.name];
  if (slice.count === 1) return `${name}: ${nanos(slice.length_ns)}, from ${nanos(slice.start_ns)}`;
  return `${count(slice.count)} in ${nanos(slice.length_ns)} from ${nanos(slice.start_ns)}, ${percent(slice.covered_ns / Math.max(1, slice.length_ns))} covered; the longest is ${name}`;
}
