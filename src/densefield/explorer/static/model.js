// The model: presets, which of the two models is shown, and its sliders.

import { paintedLabels } from "./brush.js";
import { kernelControls } from "./kernels.js";
import { slider } from "./sliders.js";
import { byId, element, on, replaceControls, set, state, update } from "./state.js";
import { choice } from "./tools.js";

const sourceNames = (scores) => {
  const file = scores ? "Scores" : "Mask";
  return { mask: file, both: `${file} and paint`, scribbles: "Paint only" };
};
const hasScores = (image) => ["probabilities", "logits", "soft"].includes(image.mask);

/** Takes over a preset's settings; those of scribbles stay. */
export function apply(preset) {
  const { name = preset.preset } = preset; // what was chosen before has the name of its preset as `preset`
  update({ settings: { ...state.settings, ...structuredClone(preset.settings) }, preset: name, step: null });
  drawSliders();
}

const withKernels = () => state.gallery.presets.find((preset) => preset.settings.crf);

choice("models", "model", (model) => {
  set({ model, crf: state.settings.crf ?? structuredClone(withKernels().settings.crf) });
  drawSliders();
});

/** Where labels come from, if there is more than one possibility. */
function sources() {
  if (!state.image?.mask) return null;
  const inputs = Object.entries(sourceNames(hasScores(state.image))).map(([value, name]) => {
    const input = element("input", { type: "radio", name: "source", value, checked: state.source === value });
    input.addEventListener("change", () => update({ source: value }));
    return element("label", {}, input, element("span", {}, name));
  });
  const legend = element("legend", { className: "hidden" }, "Where labels come from");
  return element("fieldset", { className: "segments wide small" }, legend, ...inputs);
}

/** Draws the sliders of the shown model again. */
export function drawSliders() {
  if (!state.image) return;
  const { settings, image, source } = state;
  const rows = [sources()];
  const change = (name) => (value) => set({ [name]: value }, state.preset && name.includes("scribble") ? state.preset : "");
  const labels = image.mask && !hasScores(image);
  if (source !== "scribbles" && labels && settings.model === "kernels") {
    const even = Number((1 / Math.max(image.numbers.length, 2)).toFixed(3)); // the confidence that prefers no label
    rows.push(slider({ label: "Confidence of the mask", value: settings.confidence, low: even + 0.01, high: 0.9999, least: even + 0.001, most: 0.999999, scale: "logit", changed: change("confidence") }));
  }
  if (source !== "mask" && settings.model === "kernels") {
    rows.push(slider({ label: "Confidence of the paint", value: settings.scribble_confidence, low: 0.51, high: 0.99999, least: 0.501, most: 0.999999, scale: "logit", changed: change("scribble_confidence") }));
  }
  if (source !== "scribbles" && image.mask && !labels) {
    rows.push(slider({ label: "Temperature", value: settings.temperature, low: 0.2, high: 10, least: 0.001, most: 1e6, scale: "log", changed: change("temperature") }));
  }
  if (settings.model === "learnt" && (labels || source === "scribbles" || !image.mask)) rows.push(...roughness());
  rows.push(slider({ label: "Iterations", value: settings.iterations, low: 0, high: Math.max(30, settings.iterations), most: 500, whole: true, changed: (value) => set({ iterations: value }) }));
  if (settings.model === "kernels") rows.push(...kernelControls());
  replaceControls(byId("sliders"), ...rows.filter((row) => row));
}

function roughness() {
  const given = state.settings.roughness;
  const estimate = element("input", { type: "checkbox", checked: given === null });
  estimate.addEventListener("change", () => {
    set({ roughness: estimate.checked ? null : Number((state.result?.roughness ?? 5).toPrecision(3)) });
    drawSliders();
  });
  const check = element("label", { className: "check" }, estimate, "Estimate how rough the mask is");
  if (given === null) return [check];
  const range = { label: "Roughness", unit: "pixels", value: given, low: 0.5, high: 60, least: 0.01, most: 1e5, scale: "log" };
  return [check, slider({ ...range, changed: (value) => set({ roughness: value }) })];
}

function drawPresets() {
  const chips = state.gallery.presets.map((preset) => {
    const chip = element("button", { type: "button", className: "chip", title: preset.note }, preset.name);
    chip.setAttribute("aria-pressed", String(state.preset === preset.name));
    chip.addEventListener("click", () => apply(preset));
    return chip;
  });
  replaceControls(byId("presets"), ...chips);
}

function drawNote() {
  const { model } = state.settings;
  byId("models").querySelector(`input[value="${model}"]`).checked = true;
  const preset = state.gallery.presets.find((each) => each.name === state.preset);
  const kind = model === "learnt" ? "Shown: the default of densefield.refine." : "Shown: densefield.CRF with these kernels.";
  const facts = [preset ? preset.note : kind];
  if (model === "learnt" && state.result) {
    const { roughness: rough, coupled } = state.result;
    if (rough && state.settings.roughness === null) facts.push(`Roughness estimated: ${rough.toPrecision(3)} pixels.`);
    if (coupled !== undefined) facts.push(`${(100 * coupled).toFixed(0)} % of the pixels are near an edge and take part.`);
  }
  byId("model-note").textContent = facts.join(" ");
  byId("model-note").className = `note ${model}`;
}

/** After painting: where labels come from, without a choice by the user. */
export function choosePainted() {
  const any = paintedLabels().size > 0;
  if (any && state.source === "mask") update({ source: state.image.mask ? "both" : "scribbles" });
}

on("preset settings gallery", () => state.gallery && drawPresets());
on("preset settings result gallery", () => state.gallery && drawNote());
on("source image", drawSliders);
addEventListener("sliders", drawSliders);
