// Where the GPU time goes, as a flame graph turned over: all of it, its kernels, their launch shapes. Width is time.
import { h, note, say } from "./dom.js";
import { count, fitWords, nanos, percent, shape } from "./units.js";

/** Parts narrower than this share of the picture are drawn as one. */
const LEAST = 0.004;

export function breakdown(summary) {
  const kernels = summary.kernels.filter((kernel) => kernel.gpu);
  if (kernels.length === 0) return note("Kernels were not timed, so there is no time to break down.");
  const all = { label: "All kernels", total: kernels.reduce((sum, kernel) => sum + kernel.gpu.total_ns, 0), share: 1, parts: kernels.map((kernel) => part(kernel, summary.configs)) };
  const about = h("p", { class: "about", role: "status" });
  const picture = h("div", { class: "flame", role: "group", "aria-label": "GPU time by kernel and launch shape" });
  const zoom = (chosen) => {
    picture.replaceChildren(...rows(chosen, all, zoom, (words) => say(about, words)));
    say(about, chosen.about ?? "Width is GPU time. Choose a kernel to see its launch shapes.");
  };
  zoom(all);
  return h("div", {}, about, picture);
}

function part(kernel, configs) {
  const { total_ns: total, share, mean_ns } = kernel.gpu;
  const shapes = configs
    .filter((config) => config.name === kernel.name && config.gpu)
    .map((config) => ({
      label: shape(config),
      total: config.gpu.total_ns,
      share: config.gpu.share,
      about: `${kernel.name}, ${shape(config)}: ${percent(config.gpu.share)} of the GPU time, ${count(config.calls)} executions of ${nanos(config.gpu.mean_ns)}; occupancy ${fitWords(config.fit)}`,
    }));
  const about = `${kernel.name}: ${percent(share)} of the GPU time, ${nanos(total)} in ${count(kernel.calls)} executions of ${nanos(mean_ns)}; occupancy ${fitWords(kernel.fit)}`;
  return { label: kernel.name, total, share, about, parts: shapes };
}

/** The chosen part over all the width, what it consists of below, and the way back above. */
function rows(chosen, all, zoom, tell) {
  const row = (parts) => h("div", { class: "row" }, parts);
  const bar = (part, width, act) => {
    const element = h("button", { type: "button", title: part.about, onclick: act, onfocus: () => tell(part.about ?? ""), onpointerenter: () => tell(part.about ?? "") },
      h("span", { class: "cut" }, part.label), h("span", { class: "amount" }, `${nanos(part.total)}, ${percent(part.share)}`));
    element.style.width = `${width * 100}%`;
    return element;
  };
  const list = [row([bar(all, 1, () => zoom(all))])];
  if (chosen !== all) list.push(row([bar(chosen, 1, () => zoom(all))]));
  const [wide, narrow] = split(chosen.parts, chosen.total);
  list.push(row([
    ...wide.map((part) => bar(part, part.total / chosen.total, () => part.parts && zoom(part))),
    narrow.length > 0 && rest(narrow, chosen.total),
  ].filter(Boolean)));
  if (chosen === all) {
    const below = wide.map((part) => {
      const holder = h("div", { class: "row" }, part.parts.map((inner) => bar(inner, inner.total / part.total, () => zoom(part))));
      holder.style.width = `${(part.total / all.total) * 100}%`;
      return holder;
    });
    list.push(row(below));
  }
  return list;
}

function split(parts, total) {
  const isWide = (part) => part.total / total >= LEAST;
  return [parts.filter(isWide), parts.filter((part) => !isWide(part))];
}

function rest(narrow, total) {
  const sum = narrow.reduce((all, part) => all + part.total, 0);
  const element = h("span", { class: "rest", title: `${count(narrow.length)} more, ${nanos(sum)} together` }, "…");
  element.style.width = `${(sum / total) * 100}%`;
  return element;
}
