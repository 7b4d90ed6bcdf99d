// A plane with two logarithmic axes: places in it, its grid with words at whole decades, and what lies under the pointer.
import { surface } from "./chart.js";

const EDGE = { left: 104, bottom: 34, top: 8, right: 8 };
const NEAR = 24;

/** Whole decades around some values, at least one: [3, 4] stands for 1,000 to 10,000. */
export function decades(values) {
  const known = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(Math.min(...known)));
  return [low, Math.max(low + 1, Math.ceil(Math.log10(Math.max(...known))))];
}

/** From values to places. `plane` has `x` and `y`, each with its `decades`, a `label` and words for a value. */
export function places(canvas, { x, y }) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const part = ({ decades: [low, high] }, value) => (Math.log10(value) - low) / (high - low);
  return {
    x: (value) => EDGE.left + part(x, value) * (width - EDGE.left - EDGE.right),
    y: (value) => height - EDGE.bottom - part(y, value) * (height - EDGE.bottom - EDGE.top),
  };
}

/** Draws the grid, and returns what draws on it. */
export function grid(canvas, plane) {
  const { paint, width, height, colour } = surface(canvas);
  const at = places(canvas, plane);
  paint.font = `12px ${colour("--font")}`;
  for (const axis of ["x", "y"]) {
    const { decades: [low, high], show } = plane[axis];
    // No more words than there is room for.
    const step = Math.max(1, Math.ceil((high - low) / 8));
    for (let power = low; power <= high; power += 1) {
      const value = 10 ** power;
      const place = at[axis](value);
      paint.fillStyle = colour("--line");
      if (axis === "x") paint.fillRect(place, EDGE.top, 1, height - EDGE.top - EDGE.bottom);
      else paint.fillRect(EDGE.left, place, width - EDGE.left - EDGE.right, 1);
      if ((power - low) % step !== 0) continue;
      paint.fillStyle = colour("--soft");
      paint.textAlign = axis === "y" || power === high ? "right" : power === low ? "left" : "center";
      if (axis === "x") paint.fillText(show(value), place, height - EDGE.bottom + 14);
      else paint.fillText(show(value), EDGE.left - 6, place + (power === high ? 10 : power === low ? 0 : 4));
    }
  }
  paint.textAlign = "center";
  paint.fillText(plane.x.label, (EDGE.left + width) / 2, height - 4);
  paint.save();
  paint.translate(10, (height - EDGE.bottom) / 2);
  paint.rotate(-Math.PI / 2);
  paint.fillText(plane.y.label, 0, 0);
  paint.restore();
  return { paint, colour, at };
}

/** Dots, each at its `x` and `y`. */
export function dots({ paint, colour, at }, points) {
  paint.fillStyle = colour("--accent");
  for (const one of points) {
    paint.beginPath();
    paint.arc(at.x(one.x), at.y(one.y), 4, 0, 7);
    paint.fill();
  }
}

/** The dot that a pointer is at, if it is at one. */
export function under(canvas, plane, points, { offsetX, offsetY }) {
  const at = places(canvas, plane);
  const away = (one) => Math.hypot(at.x(one.x) - offsetX, at.y(one.y) - offsetY);
  const near = points.reduce((best, one) => (best && away(best) <= away(one) ? best : one), null);
  return near && away(near) < NEAR ? near : null;
}
