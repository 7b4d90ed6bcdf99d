// The roofline: how many operations a second each launch shape reached, over how many it has for each byte. Nothing is above
// the roof of the device, which is its memory on the left and its arithmetic on the right.
import { decades, dots, grid, under } from "./plane.js";
import { h, name, note, part, say } from "./dom.js";
import { table } from "./tables.js";
import { bytes, flops, flopsRate, nanos, nothing, percent, shape } from "./units.js";

const HINT = "Each dot is a kernel with a launch shape: the nearer to the roof, the less is left to gain without other work.";
const perByte = (value) => (value > 0 ? `${Number(value.toPrecision(3))}` : nothing);

export function roofline(summary) {
  const known = summary.configs.filter((config) => config.work);
  const unknown = summary.configs.filter((config) => config.work_unknown);
  if (known.length + unknown.length === 0) {
    return [
      note("What launches do was not recorded in this session. It is where launches are looked at closely:"),
      h("pre", {}, "apex run --mode advise -- CMD"),
    ];
  }
  const shown = [note("Operations and bytes of one execution, by walking its warps through its PTX with what its first launch passed. Bytes are those that go beyond the nearest cache.")];
  if (summary.soft) shown.push(note("The times are this CPU's, and the roof is that of the GPU that the software GPU says it is."));
  if (known.length > 0) shown.push(plot(summary, known), part("Launch shapes", knownTable(known)));
  if (unknown.length > 0) shown.push(part("Not known", unknownTable(unknown)));
  return shown;
}

function plot({ devices }, known) {
  const points = known
    .filter(({ work }) => work.flops_per_byte > 0 && work.flops_per_second > 0)
    .map((config) => ({ config, x: config.work.flops_per_byte, y: config.work.flops_per_second }));
  if (points.length === 0) return note("No shape has both operations and a measured time: there is nothing to draw.");
  // Of several devices it is not known which one ran a shape.
  const device = devices.length === 1 && devices[0].bytes_per_second && devices[0].flops_per_second ? devices[0] : null;
  const peaks = device ? [device.flops_per_second] : [];
  if (device?.double_flops_per_second && known.some(({ work }) => work.double)) peaks.push(device.double_flops_per_second);
  const ridges = peaks.map((peak) => peak / device.bytes_per_second);
  const plane = {
    x: { decades: decades([...points.map((one) => one.x), ...ridges.map((ridge) => 3 * ridge)]), label: "operations for each byte", show: perByte },
    y: { decades: decades([...points.map((one) => one.y), ...peaks.map((peak) => 1.5 * peak)]), label: "reached", show: flopsRate },
  };
  const roof = device && `${device.name}: ${bytes(device.bytes_per_second)}/s, ${flopsRate(device.flops_per_second)}`;
  const about = h("p", { class: "about", role: "status" }, HINT);
  const canvas = h("canvas", { class: "scatter", role: "img", "aria-label": "Operations a second over operations for each byte, by launch shape; the table below has the numbers" });
  canvas.addEventListener("pointermove", (event) => {
    const near = under(canvas, plane, points, event);
    say(about, near ? pointed(near.config) : HINT);
  });
  new ResizeObserver(() => {
    const drawing = grid(canvas, plane);
    for (const peak of peaks) drawRoof(drawing, plane, peak, device.bytes_per_second);
    dots(drawing, points);
  }).observe(canvas);
  return h("div", {}, roof && note(`The roof is that of the ${roof}.`), canvas, about);
}

const pointed = (config) =>
  `${config.name}, ${shape(config)}: ${perByte(config.work.flops_per_byte)} operations for each byte, ${flopsRate(config.work.flops_per_second)}, ${percent(config.work.reached)} of what the roof allows`;

/** Up along the memory's rate to the ridge, and level from there. */
function drawRoof({ paint, colour, at }, { x, y }, peak, memory) {
  const [from, to] = x.decades.map((power) => 10 ** power);
  const least = 10 ** y.decades[0];
  const start = Math.max(from, least / memory);
  const ridge = peak / memory;
  paint.strokeStyle = colour("--soft");
  paint.lineWidth = 1.5;
  paint.beginPath();
  paint.moveTo(at.x(start), at.y(Math.min(peak, start * memory)));
  if (ridge > start) paint.lineTo(at.x(ridge), at.y(peak));
  paint.lineTo(at.x(to), at.y(peak));
  paint.stroke();
}

const columns = {
  kernel: { label: "Kernel", value: (one) => one.name, show: (one) => name(one.name) },
  shape: { label: "Shape", show: shape },
  share: { label: "Time", number: true, value: (one) => one.gpu?.share, show: (one) => percent(one.gpu?.share), title: "Share of the session's GPU time" },
};

function knownTable(rows) {
  const made = table([
    columns.kernel,
    columns.shape,
    columns.share,
    { label: "Operations", number: true, value: (one) => one.work.flops, show: (one) => flops(one.work.flops), title: "Floating-point operations; a multiply-add is two" },
    { label: "Bytes", number: true, value: (one) => one.work.bytes, show: (one) => bytes(one.work.bytes), title: "Beyond the nearest cache, in whole sectors" },
    { label: "For each byte", number: true, value: (one) => one.work.flops_per_byte, show: (one) => perByte(one.work.flops_per_byte) },
    { label: "Reached", number: true, value: (one) => one.work.flops_per_second, show: (one) => flopsRate(one.work.flops_per_second) },
    { label: "Of the roof", number: true, value: (one) => one.work.reached, show: (one) => percent(one.work.reached), title: "Least time over measured time; what the second-level cache holds may bring it above 100 %" },
    { label: "Least time", number: true, value: (one) => one.work.least_ns, show: (one) => `${nanos(one.work.least_ns)} ${one.work.bound ?? ""}`.trim(), title: "By the roof, and which part of it" },
    { label: "Measured", number: true, value: (one) => one.gpu?.mean_ns, show: (one) => nanos(one.gpu?.mean_ns) },
  ], { caption: "What each launch shape does and reaches", search: (one) => one.name, searchLabel: "Find a kernel", most: 200 });
  made.update(rows);
  return made.element;
}

function unknownTable(rows) {
  const made = table([columns.kernel, columns.shape, columns.share, { label: "Why", show: (one) => one.work_unknown }],
    { caption: "Launch shapes of which it is not known what they do", search: (one) => one.name, searchLabel: "Find a kernel", most: 200 });
  made.update(rows);
  return made.element;
}
