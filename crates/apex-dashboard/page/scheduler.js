// How programs share a GPU now: who is what, who is held, and whether promises are kept.
import { h, note, part, pending } from "./dom.js";
import { minute } from "./live.js";
import { table } from "./tables.js";
import { count, nanos, nothing } from "./units.js";

export function scheduler(main, _words, { listen }) {
  const gpus = h("div", {}, pending("Waiting for the first look…"));
  const tables = new Map();
  main.append(h("h1", {}, "Scheduler"), gpus);

  function show(frame) {
    if (!frame) return;
    gpus.querySelector("[aria-busy]")?.remove();
    if (frame.shared.every((gpu) => gpu.programs.length === 0)) {
      tables.clear();
      if (!gpus.querySelector(".idle")) gpus.replaceChildren(idle());
      return;
    }
    gpus.querySelector(".idle")?.remove();
    for (const [gpu, { section }] of tables) {
      if (frame.shared.some((one) => one.gpu === gpu)) continue;
      section.remove();
      tables.delete(gpu);
    }
    for (const gpu of frame.shared) {
      if (!tables.has(gpu.gpu)) {
        const made = sharing();
        const about = h("p", { class: "about" });
        const section = part(`GPU ${gpu.gpu}`, about, made.element);
        tables.set(gpu.gpu, { made, about, section });
        gpus.append(section);
      }
      const { made, about } = tables.get(gpu.gpu);
      const words = [`policy ${gpu.policy || "none"}`, gpu.mps ? "with MPS" : "without MPS"];
      words.push(gpu.led ? "a controller leads" : "no controller leads: every gate is open");
      about.textContent = words.join(" · ");
      made.update(gpu.programs);
    }
  }
  show(minute.latest);
  return listen({ frame: show });
}

const idle = () =>
  h("div", { class: "idle" },
    note("No programs share a GPU under a policy now. A program that is given a class takes part:"),
    h("pre", {}, "apex run --class latency --sla p95=10ms -- ./serve\napex run --class batch -- python train.py"));

function sharing() {
  const columns = [
    { label: "pid", value: (one) => one.pid, show: (one) => String(one.pid) },
    { label: "Class", value: (one) => one.class, show: (one) => one.class },
    { label: "State", show: state },
    { label: "Bursts", number: true, value: (one) => one.bursts, show: (one) => count(one.bursts), title: "Stretches of work between idle times, such as requests" },
    { label: "Burst length", number: true, value: (one) => one.burst_ns, show: length, title: "At the promised quantile, of the bursts that this page saw" },
    { label: "Promise", number: true, show: (one) => (one.promise_ns ? `P${quantile(one)} ≤ ${nanos(one.promise_ns)}` : nothing) },
    { label: "Held", number: true, value: (one) => one.held_ns, show: (one) => nanos(one.held_ns), title: "Time that its threads were held so that others could go first" },
    { label: "Launches held", number: true, value: (one) => one.holds, show: (one) => `${count(one.holds)} of ${count(one.launches)}` },
    { label: "In flight", number: true, show: (one) => `${nanos(one.in_flight_ns)}${one.budget_ns ? ` of ${nanos(one.budget_ns)}` : ""}`, title: "Predicted time of its work on the GPU, and how much it may have there" },
  ];
  return table(columns, { caption: "Programs that share this GPU" });
}

const quantile = (one) => Number((one.quantile * 100).toFixed(2));

const length = (one) => (one.burst_ns == null ? nothing : `P${quantile(one)} ${nanos(one.burst_ns)} (${count(one.bursts_seen)} seen)`);

function state(one) {
  const words = [one.held_now > 0 ? "held" : one.in_burst ? "in a burst" : "idle"];
  if (one.gated) words.push("gated");
  if (one.promise_ns && one.burst_ns) words.push(one.burst_ns <= one.promise_ns ? "keeps its promise" : "breaks its promise");
  return words.join(", ");
}
