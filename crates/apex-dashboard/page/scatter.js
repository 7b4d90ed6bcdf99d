// Predicted beside measured times, both on logarithmic axes: on the line is right, above is too slow, below too fast.
import { decades, dots, grid, under } from "./plane.js";
import { h, say } from "./dom.js";
import { nanos, percent } from "./units.js";

export function scatter(kernels) {
  const known = kernels.filter(({ predicted: one }) => one.predicted_ns > 0 && one.measured_ns > 0);
  const points = known.map(({ name, predicted: one }) => ({ ...one, name, x: one.measured_ns, y: one.predicted_ns }));
  const about = h("p", { class: "about", role: "status" }, "Each dot is a kernel. On the line the prediction is right; the band is ±10 %.");
  if (points.length === 0) return about;
  const canvas = h("canvas", { class: "scatter", role: "img", "aria-label": "Predicted over measured times by kernel; the table below has the numbers" });
  const both = decades(points.flatMap((one) => [one.x, one.y]));
  const plane = { x: { decades: both, label: "measured", show: nanos }, y: { decades: both, label: "predicted", show: nanos } };
  canvas.addEventListener("pointermove", (event) => {
    const near = under(canvas, plane, points, event);
    if (near) say(about, `${near.name}: predicted ${nanos(near.y)}, measured ${nanos(near.x)}, median error ${percent(near.median_error)}`);
  });
  new ResizeObserver(() => draw(canvas, plane, points)).observe(canvas);
  return h("div", {}, canvas, about);
}

function draw(canvas, plane, points) {
  const drawing = grid(canvas, plane);
  const { paint, colour, at } = drawing;
  const [from, to] = plane.x.decades.map((power) => 10 ** power);
  paint.fillStyle = colour("--accent");
  paint.globalAlpha = 0.12;
  paint.beginPath();
  for (const [time, factor] of [[from, 1.1], [to, 1.1], [to, 0.9], [from, 0.9]]) paint.lineTo(at.x(time), at.y(time * factor));
  paint.fill();
  paint.globalAlpha = 1;
  paint.strokeStyle = colour("--soft");
  paint.beginPath();
  paint.moveTo(at.x(from), at.y(from));
  paint.lineTo(at.x(to), at.y(to));
  paint.stroke();
  dots(drawing, points);
}
