// The page: keys, theme, and what happens at the start.

import "./export.js";
import "./numbers.js";
import "./pixel.js";
import "./tools.js";
import { undo } from "./brush.js";
import { next, start } from "./gallery.js";
import { choosePainted } from "./model.js";
import { refresh } from "./solve.js";
import { toggle } from "./steps.js";
import { byId, state, update } from "./state.js";

const KEYS = {
  ArrowLeft: () => next(-1),
  ArrowRight: () => next(1),
  v: () => update({ tool: "look" }),
  b: () => update({ tool: "paint" }),
  e: () => update({ tool: "erase" }),
  "[": () => update({ brush: Math.max(1, Math.round(state.brush / 1.3)) }),
  "]": () => update({ brush: Math.min(60, Math.ceil(state.brush * 1.3)) }),
  " ": toggle,
};

addEventListener("keydown", (event) => {
  const typing = event.target.closest("textarea, select, input[type=number]");
  if ((event.ctrlKey || event.metaKey) && event.key === "z" && !typing) {
    event.preventDefault();
    undo();
    return;
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !state.image) return;
  if (event.key === " " && event.target.closest("button, input, summary")) return;
  if (event.key.startsWith("Arrow") && event.target.closest("input")) return; // they move sliders, and choose radio buttons
  if (/^[0-9]$/.test(event.key) && state.labels.includes(Number(event.key))) {
    update({ label: Number(event.key), tool: state.tool === "erase" ? "erase" : "paint" });
  } else if (KEYS[event.key]) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

/** The theme of the system, until the button chooses another, which reloading the page keeps. */
const dark = matchMedia("(prefers-color-scheme: dark)");
const chosen = () => sessionStorage.getItem("theme");
function theme(isDark) {
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  byId("theme").setAttribute("aria-pressed", String(isDark));
}
theme(chosen() ? chosen() === "dark" : dark.matches);
dark.addEventListener("change", () => chosen() ?? theme(dark.matches));
byId("theme").addEventListener("click", () => {
  theme(document.documentElement.dataset.theme !== "dark");
  sessionStorage.setItem("theme", document.documentElement.dataset.theme);
});

byId("picture").addEventListener("painted", () => {
  if (!state.image) return;
  choosePainted();
  if (state.source !== "mask") refresh();
});

start().catch((error) => {
  byId("notice").hidden = false;
  byId("notice").textContent = error.message;
});
