// The frame of the page: which view is shown, light or dark, and the one stream that all live views share.
import { compare } from "./compare.js";
import { h, note } from "./dom.js";
import { live, minute } from "./live.js";
import { scheduler } from "./scheduler.js";
import { session } from "./session.js";
import { sessions } from "./sessions.js";

const VIEWS = { live, sessions, session, compare, scheduler };
const TITLES = { live: "Live", sessions: "Sessions", session: "Session", compare: "Compare", scheduler: "Scheduler" };

const main = document.querySelector("main");
const state = document.querySelector("#link-state");
const listeners = new Set([minute]);
let leave = () => {};

/** Tells a view of every frame while it is shown. */
function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function connect() {
  const stream = new EventSource("api/live");
  const connected = (words) => {
    state.textContent = words;
    state.classList.toggle("lost", words !== "");
  };
  stream.addEventListener("past", (event) => {
    connected("");
    minute.past(JSON.parse(event.data));
  });
  stream.addEventListener("frame", (event) => {
    const frame = JSON.parse(event.data);
    for (const listener of listeners) listener.frame(frame);
  });
  stream.addEventListener("error", () => {
    connected("connection lost; trying again");
    // A browser gives up where the server refused; the server may only have been started again.
    if (stream.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
  });
}

function decoded(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}

function route() {
  const [view, ...words] = location.hash.replace(/^#\//, "").split("/").map(decoded);
  const known = VIEWS[view] ? view : "live";
  leave();
  main.replaceChildren();
  document.title = `${TITLES[known]} – apex`;
  for (const link of document.querySelectorAll("nav a")) {
    const isHere = link.hash === `#/${known}` || (known === "session" && link.hash === "#/sessions");
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const gone = new AbortController();
  const failed = (error) => {
    if (!gone.signal.aborted) main.replaceChildren(note(`This cannot be shown: ${error.message}.`));
  };
  const context = { listen, signal: gone.signal, failed };
  const ends = VIEWS[known](main, words, context);
  leave = () => {
    gone.abort();
    ends?.();
  };
}

const THEMES = ["", "light", "dark"];
const button = document.querySelector("#theme");

function theme(chosen) {
  document.documentElement.dataset.theme = chosen;
  button.title = "Light, dark, or as the system has it";
  button.replaceChildren(h("span", { class: "hidden" }, "Colours: "), chosen || "auto");
  localStorage.setItem("theme", chosen);
}

button.addEventListener("click", () => {
  theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]);
  for (const listener of listeners) listener.repaint?.();
});
theme(THEMES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "");
addEventListener("hashchange", () => {
  route();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
route();
connect();
