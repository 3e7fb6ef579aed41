// The sliders of a CRF's kernels: one for every width and weight.

import { element, set, state } from "./state.js";
import { slider } from "./sliders.js";

const TITLES = { spatial: "Spatial kernel", bilateral: "Bilateral kernel" };
const NEW = {
  spatial: { kind: "spatial", weight: 3, normalization: "symmetric", sigma: 3 },
  bilateral: { kind: "bilateral", weight: 5, normalization: "symmetric", sigma_xy: 60, sigma_rgb: 10 },
};
const WIDTHS = {
  sigma: { label: "Width", unit: "pixels", low: 0.5, high: 60 },
  sigma_xy: { label: "Width", unit: "pixels", low: 1, high: 300 },
  sigma_rgb: { label: "Width in colour", unit: "levels", low: 1, high: 120 },
};
const AXES = { sigma: ["x", "y"], sigma_xy: ["x", "y"], sigma_rgb: ["red", "green", "blue"] };
const NORMALIZATIONS = ["symmetric", "after", "before", "none"];

/** Changes a field of a kernel. */
function put(place, changes) {
  const kernels = state.settings.crf.kernels.map((kernel, at) => (at === place ? { ...kernel, ...changes } : kernel));
  set({ crf: { ...state.settings.crf, kernels } });
}

function replaceKernels(kernels) {
  set({ crf: { ...state.settings.crf, kernels } });
  dispatchEvent(new Event("sliders")); // there are other sliders now
}

/** One slider for a number, one for each number of a list, and a factor for a matrix. */
function fieldSliders(place, name, value, options, parts) {
  const now = () => state.settings.crf.kernels[place][name];
  if (typeof value === "number") {
    return [slider({ ...options, value, changed: (each) => put(place, { [name]: each }) })];
  }
  if (typeof value[0] === "number") {
    return value.map((each, part) =>
      slider({
        ...options,
        label: `${options.label}, ${parts?.[part] ?? part}`,
        value: each,
        changed: (other) => put(place, { [name]: now().map((old, at) => (at === part ? other : old)) }),
      }),
    );
  }
  const changed = (factor) => put(place, { [name]: value.map((row) => row.map((each) => each * factor)) });
  const label = `${options.label}: matrix of ${value.length} × ${value.length}, times`;
  return [slider({ label, value: 1, low: 0.1, high: 10, least: 0.001, most: 1000, scale: "log", changed })];
}

function kernelCard(kernel, place) {
  const weight = { label: "Weight", low: 0, high: 20, least: -1000, most: 1000 };
  const labels = state.result?.numbers.map((number) => `label ${number}`);
  const rows = fieldSliders(place, "weight", kernel.weight, weight, labels);
  for (const [name, options] of Object.entries(WIDTHS)) {
    if (name in kernel) {
      rows.push(...fieldSliders(place, name, kernel[name], { ...options, least: 0.01, most: 1e5, scale: "log" }, AXES[name]));
    }
  }
  if (kernel.covariance) rows.push(...fieldSliders(place, "covariance", kernel.covariance, { label: "Covariance" }));
  const select = element("select", {}, ...NORMALIZATIONS.map((each) => element("option", {}, each)));
  select.value = kernel.normalization ?? "symmetric";
  select.addEventListener("change", () => put(place, { normalization: select.value }));
  const remove = element("button", { className: "plain", type: "button" }, "Remove");
  remove.setAttribute("aria-label", `Remove the ${kernel.kind} kernel`);
  remove.addEventListener("click", () => replaceKernels(state.settings.crf.kernels.filter((_, at) => at !== place)));
  const normalization = element("label", { className: "unit" }, "Normalisation ", select);
  return element(
    "fieldset",
    { className: "kernel" },
    element("legend", {}, TITLES[kernel.kind] ?? kernel.kind),
    ...rows,
    element("div", { className: "row" }, normalization, remove),
  );
}

/** The cards of all kernels, buttons to add one, and the options of inference. */
export function kernelControls() {
  const { crf } = state.settings;
  const cards = crf.kernels.map(kernelCard);
  const add = Object.keys(NEW).map((kind) => {
    const button = element("button", { type: "button" }, `Add ${kind} kernel`);
    button.disabled = crf.kernels.length >= 8;
    button.addEventListener("click", () => replaceKernels([...state.settings.crf.kernels, NEW[kind]]));
    return button;
  });
  return [...cards, element("div", { className: "buttons" }, ...add), options()];
}

function options() {
  const convergent = element("input", { type: "checkbox", checked: state.settings.crf.inference === "convergent" });
  convergent.addEventListener("change", () =>
    set({ crf: { ...state.settings.crf, inference: convergent.checked ? "convergent" : "parallel" } }),
  );
  const exclude = element("input", { type: "checkbox", checked: state.settings.crf.exclude_self === true });
  exclude.addEventListener("change", () => set({ crf: { ...state.settings.crf, exclude_self: exclude.checked } }));
  return element(
    "details",
    {},
    element("summary", {}, "Inference"),
    element(
      "div",
      {},
      element("label", { className: "check" }, convergent, "Convergent: the free energy falls in every iteration"),
      element("label", { className: "check" }, exclude, "Pixels send nothing to themselves"),
    ),
  );
}
