// Views, styles, tools and labels to paint.

import { paintedLabels } from "./brush.js";
import { css, ink } from "./colours.js";
import { byId, element, on, replaceControls, state, update } from "./state.js";

const MOST_LABELS = 254;

/** Binds the radio buttons of a fieldset to a field of the state. */
export function choice(id, name, change = (value) => update({ [name]: value })) {
  byId(id).addEventListener("change", (event) => change(event.target.value));
  on(name, () => {
    const input = byId(id).querySelector(`input[value="${state[name]}"]`);
    if (input) input.checked = true;
  });
}

/** Shows how far a slider's track is filled. */
export function fill(range) {
  const share = (range.value - range.min) / Math.max(range.max - range.min, 1e-9);
  range.style.setProperty("--filled", `${100 * share}%`);
}

choice("views", "view");
choice("styles", "style");
choice("tools", "tool");

const opacity = byId("opacity");
opacity.addEventListener("input", () => update({ opacity: opacity.value / 100 }));
document.addEventListener("input", (event) => event.target.type === "range" && fill(event.target));

/** One swatch for each label that can be painted. */
function drawSwatches() {
  const legend = element("legend", { className: "hidden" }, "Label to paint");
  const swatches = state.labels.map((label) => {
    const input = element("input", { type: "radio", name: "label", value: label, checked: label === state.label });
    input.setAttribute("aria-label", `Label ${label}`);
    const shown = element("span", { title: label === 0 ? "Label 0, the background" : `Label ${label}` }, String(label));
    shown.style.background = css(label);
    shown.style.color = ink(label);
    return element("label", {}, input, shown);
  });
  replaceControls(byId("swatches"), legend, ...swatches);
}

byId("swatches").addEventListener("click", (event) => {
  if (event.target.type === "radio") update({ label: Number(event.target.value), tool: paintTool() });
});
const paintTool = () => (state.tool === "look" ? "paint" : state.tool);

byId("more-labels").addEventListener("click", () => {
  let label = 0;
  while (state.labels.includes(label)) label += 1;
  if (label < MOST_LABELS) update({ labels: [...state.labels, label].sort((a, b) => a - b), label, tool: paintTool() });
});

on("labels label", drawSwatches);
on("image", () => {
  const own = state.image.numbers.length > 1 ? state.image.numbers : [0, 1, ...state.image.numbers];
  const known = [...new Set([...own, ...paintedLabels()])].filter((label) => label < MOST_LABELS);
  known.sort((a, b) => a - b);
  update({ labels: known, label: known.includes(state.label) ? state.label : known.find((label) => label > 0) });
  byId("truth-view").hidden = !state.image.truth;
  if (state.view === "truth" && !state.image.truth) update({ view: "compare" });
});
