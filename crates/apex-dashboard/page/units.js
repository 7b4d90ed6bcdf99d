// Numbers as words, each with its unit. The rules are those of the reports in the terminal (apex_policy::amounts), so
// that a number reads the same in both.

const three = (value) => value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);

export const nothing = "–";

/** Nanoseconds. */
export function nanos(value) {
  if (value == null) return nothing;
  if (value < 0) return `−${nanos(-value)}`;
  for (const [most, unit, one] of [[1e6, "µs", 1e3], [1e9, "ms", 1e6], [Infinity, "s", 1e9]]) {
    if (value >= one && value < most) return `${three(value / one)} ${unit}`;
  }
  return `${value.toFixed(0)} ns`;
}

/** Bytes, in powers of 1024. */
export function bytes(value) {
  if (value == null) return nothing;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let amount = value;
  while (amount >= 1024 && unit + 1 < units.length) {
    amount /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${value.toFixed(0)} B` : `${three(amount)} ${units[unit]}`;
}

/** A share from 0 to 1. */
export function percent(value) {
  if (value == null) return nothing;
  const amount = value * 100;
  if (amount === 0) return "0 %";
  if (amount < 0.1) return "<0.1 %";
  return `${amount.toFixed(amount < 9.95 ? 1 : 0)} %`;
}

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** A number of things. */
export const count = (value) => (value == null ? nothing : whole.format(value));

/** A number of things a second. */
export function rate(value) {
  if (value == null) return nothing;
  if (value >= 1e6) return `${three(value / 1e6)} M/s`;
  if (value >= 1e4) return `${three(value / 1e3)} k/s`;
  if (value >= 10 || value === 0) return `${whole.format(value)}/s`;
  return `${value.toFixed(1)}/s`;
}

const thousands = (value, unit) => {
  const letters = ["", "k", "M", "G", "T", "P", "E"];
  let letter = 0;
  while (value >= 1000 && letter + 1 < letters.length) [value, letter] = [value / 1000, letter + 1];
  return letter === 0 ? `${Number(value.toPrecision(3))} ${unit}` : `${three(value)} ${letters[letter]}${unit}`;
};

/** Floating-point operations. */
export const flops = (value) => (value == null ? nothing : thousands(value, "FLOP"));

/** Floating-point operations a second. */
export const flopsRate = (value) => (value == null ? nothing : thousands(value, "FLOP/s"));

/** Bytes a second. */
export const flow = (value) => (value == null ? nothing : `${bytes(value)}/s`);

/** How much a number changed, in per cent of what it was. */
export function change({ before, after }) {
  const ratio = after / before - 1;
  if (!Number.isFinite(ratio)) return before === after ? "same" : "new";
  if (Math.abs(ratio) < 0.0005) return "same";
  return `${ratio < 0 ? "−" : "+"}${Math.abs(ratio * 100).toFixed(1)} %`;
}

/** How much a share changed. */
export function points({ before, after }) {
  const amount = (after - before) * 100;
  return Math.abs(amount) < 0.05 ? "same" : `${amount < 0 ? "−" : "+"}${Math.abs(amount).toFixed(1)} points`;
}

/** A moment, on the reader's clock. */
export function moment(unixNanos) {
  const date = new Date(unixNanos / 1e6);
  const pad = (number) => String(number).padStart(2, "0");
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** How a session ended. */
export function exitWords(exit, running) {
  if (running) return "running";
  if (!exit) return "unknown";
  if (exit.signal != null) return `signal ${exit.signal}`;
  return `exit code ${exit.code}`;
}

/** A launch shape. */
export const shape = (config) =>
  `${config.grid.join("×")} blocks of ${config.block.join("×")}`;

/** Occupancy with what limits it, and the worst thing about the shape. */
export function fitWords(fit) {
  if (!fit) return nothing;
  const words = [percent(fit.occupancy)];
  if (fit.limiter !== "none") words[0] += ` ${fit.limiter}`;
  if (fit.waves < 1) words.push(`${fit.waves.toFixed(2)} waves`);
  else if (fit.waves < 4 && fit.tail_fraction > 0.2) words.push(`tail ${percent(fit.tail_fraction)}`);
  return words.join(", ");
}
