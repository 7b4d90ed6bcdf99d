// Curves on a canvas. Colours come from the style sheet, so they follow light and dark; sizes follow the screen's own
// dots, so lines are sharp. A curve under the pointer says the value there.

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Makes a canvas as fine as the screen, and returns what draws on it in units of the page. */
export function surface(canvas) {
  const dots = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  const [across, down] = [Math.round(width * dots), Math.round(height * dots)];
  if (canvas.width !== across || canvas.height !== down) [canvas.width, canvas.height] = [across, down];
  const paint = canvas.getContext("2d");
  paint.setTransform(dots, 0, 0, dots, 0, 0);
  paint.clearRect(0, 0, width, height);
  return { paint, width, height, colour };
}

/** The points of a curve: when and how much. */
export class Curve {
  constructor(span) {
    this.span = span;
    this.points = [];
  }

  add(at, value) {
    if (this.points.at(-1)?.[0] >= at) return;
    this.points.push([at, value]);
    while (this.points.length > 2 && this.points[1][0] < at - this.span) this.points.shift();
  }

  get peak() {
    return this.points.reduce((most, [, value]) => Math.max(most, value), 0);
  }
}

/** Draws a curve over its span, up to `most` or to its own peak; `under` is where a pointer is, from 0 to 1. */
export function draw(canvas, curve, { tone = "--accent", most = null, under = null, show = String } = {}) {
  const { paint, width, height } = surface(canvas);
  if (width === 0 || curve.points.length === 0) return;
  const last = curve.points.at(-1)[0];
  const top = most ?? (curve.peak * 1.08 || 1);
  const x = (at) => width * (1 - (last - at) / curve.span);
  const y = (value) => height - 1 - Math.min(value / top, 1) * (height - 3);
  grid(paint, width, height);
  const line = new Path2D();
  // What is between two columns of dots cannot be seen, but its peak must be.
  let [column, highest] = [null, 0];
  let begun = false;
  const put = (across, value) => {
    if (begun) line.lineTo(across, y(value));
    else line.moveTo(across, y(value));
    begun = true;
  };
  for (const [at, value] of curve.points) {
    const across = Math.round(x(at) * 2) / 2;
    if (across === column) highest = Math.max(highest, value);
    else {
      if (column !== null) put(column, highest);
      [column, highest] = [across, value];
    }
  }
  put(column, highest);
  const area = new Path2D(line);
  area.lineTo(x(last), height);
  area.lineTo(Math.max(0, x(curve.points[0][0])), height);
  paint.fillStyle = colour(tone);
  paint.globalAlpha = 0.14;
  paint.fill(area);
  paint.globalAlpha = 1;
  paint.strokeStyle = colour(tone);
  paint.lineWidth = 1.5;
  paint.stroke(line);
  if (under !== null) pointed(paint, curve, { last, x, y, width, under, show });
}

function grid(paint, width, height) {
  paint.fillStyle = colour("--line");
  for (const part of [0, 0.5]) paint.fillRect(0, Math.round(1 + part * (height - 3)), width, 1);
  paint.fillRect(0, height - 1, width, 1);
}

function pointed(paint, curve, { last, x, y, width, under, show }) {
  const wanted = last - (1 - under) * curve.span;
  const near = curve.points.reduce((best, point) =>
    Math.abs(point[0] - wanted) < Math.abs(best[0] - wanted) ? point : best);
  const [at, value] = near;
  paint.fillStyle = colour("--ink");
  paint.beginPath();
  paint.arc(x(at), y(value), 3, 0, 7);
  paint.fill();
  const words = `${show(value)}, ${((last - at) / 1e9).toFixed(1)} s ago`;
  paint.font = `12px ${colour("--font")}`;
  const room = paint.measureText(words).width;
  const left = Math.min(Math.max(0, x(at) - room / 2), width - room);
  paint.fillStyle = colour("--ground");
  paint.globalAlpha = 0.85;
  paint.fillRect(left - 3, 3, room + 6, 17);
  paint.globalAlpha = 1;
  paint.fillStyle = colour("--ink");
  paint.fillText(words, left, 16);
}

/** Where a pointer is over an element, from 0 to 1; `moved` is told of each change, of null when it leaves. */
export function follow(element, moved) {
  element.addEventListener("pointermove", (event) => {
    const { left, width } = element.getBoundingClientRect();
    moved((event.clientX - left) / width);
  });
  element.addEventListener("pointerleave", () => moved(null));
}
