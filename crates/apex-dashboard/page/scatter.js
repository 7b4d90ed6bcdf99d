// Predicted beside measured times, both on logarithmic axes: on the line is right, above is too slow, below too fast.
import { surface } from "./chart.js";
import { h, say } from "./dom.js";
import { nanos, percent } from "./units.js";

const EDGE = { left: 74, bottom: 34, top: 8, right: 8 };

export function scatter(kernels) {
  const points = kernels.map((kernel) => ({ name: kernel.name, ...kernel.predicted })).filter((one) => one.predicted_ns > 0 && one.measured_ns > 0);
  const about = h("p", { class: "about", role: "status" }, "Each dot is a kernel. On the line the prediction is right; the band is ±10 %.");
  const canvas = h("canvas", { class: "scatter", role: "img", "aria-label": "Predicted over measured times by kernel; the table below has the numbers" });
  const times = points.flatMap((one) => [one.predicted_ns, one.measured_ns]);
  // Whole decades, at least one.
  const low = Math.floor(Math.log10(Math.min(...times, 1e9)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...times, 1))));
  const paint = () => draw(canvas, points, [low, high]);
  canvas.addEventListener("pointermove", (event) => {
    const { x, y } = axes(canvas.clientWidth, canvas.clientHeight, [low, high]);
    const away = (one) => Math.hypot(x(one.measured_ns) - event.offsetX, y(one.predicted_ns) - event.offsetY);
    const near = points.reduce((best, one) => (away(one) < away(best) ? one : best), points[0]);
    if (near && away(near) < 24) say(about, `${near.name}: predicted ${nanos(near.predicted_ns)}, measured ${nanos(near.measured_ns)}, median error ${percent(near.median_error)}`);
  });
  new ResizeObserver(paint).observe(canvas);
  return h("div", {}, canvas, about);
}

function axes(width, height, [low, high]) {
  const part = (time) => (Math.log10(time) - low) / (high - low);
  const x = (time) => EDGE.left + part(time) * (width - EDGE.left - EDGE.right);
  const y = (time) => height - EDGE.bottom - part(time) * (height - EDGE.bottom - EDGE.top);
  return { x, y };
}

function draw(canvas, points, [low, high]) {
  const { paint, width, height, colour } = surface(canvas);
  const { x, y } = axes(width, height, [low, high]);
  paint.font = `12px ${colour("--font")}`;
  for (let power = low; power <= high; power += 1) {
    const time = 10 ** power;
    paint.fillStyle = colour("--line");
    paint.fillRect(x(time), EDGE.top, 1, height - EDGE.top - EDGE.bottom);
    paint.fillRect(EDGE.left, y(time), width - EDGE.left - EDGE.right, 1);
    paint.fillStyle = colour("--soft");
    paint.textAlign = power === high ? "right" : "center";
    paint.fillText(nanos(time), x(time), height - EDGE.bottom + 14);
    paint.textAlign = "right";
    paint.fillText(nanos(time), EDGE.left - 6, y(time) + (power === high ? 10 : 4));
  }
  paint.textAlign = "center";
  paint.fillText("measured", (EDGE.left + width) / 2, height - 4);
  paint.save();
  paint.translate(10, (height - EDGE.bottom) / 2);
  paint.rotate(-Math.PI / 2);
  paint.fillText("predicted", 0, 0);
  paint.restore();
  const [from, to] = [10 ** low, 10 ** high];
  paint.fillStyle = colour("--accent");
  paint.globalAlpha = 0.12;
  paint.beginPath();
  for (const [time, factor] of [[from, 1.1], [to, 1.1], [to, 0.9], [from, 0.9]]) paint.lineTo(x(time), y(time * factor));
  paint.fill();
  paint.globalAlpha = 1;
  paint.strokeStyle = colour("--soft");
  paint.beginPath();
  paint.moveTo(x(from), y(from));
  paint.lineTo(x(to), y(to));
  paint.stroke();
  paint.fillStyle = colour("--accent");
  for (const one of points) {
    paint.beginPath();
    paint.arc(x(one.measured_ns), y(one.predicted_ns), 4, 0, 7);
    paint.fill();
  }
}
