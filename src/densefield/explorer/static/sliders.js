// A slider with a number beside it, on a linear, logarithmic or logit scale.

import { element } from "./state.js";
import { fill } from "./tools.js";

const STEPS = 1000;
const SCALES = {
  linear: [(value) => value, (at) => at],
  log: [Math.log, Math.exp],
  logit: [(p) => Math.log(p / (1 - p)), (z) => 1 / (1 + Math.exp(-z))],
};
let ids = 0;

/** Rounds to three significant digits, which is how finely a slider moves. */
const rounded = (value) => Number(value.toPrecision(3));

/**
 * A slider from `low` to `high`; the number may go beyond, within `least` and `most`.
 * `changed(value)` is called while the slider moves.
 */
export function slider({ label, unit = "", value, low, high, least = low, most = high, scale = "linear", whole = false, changed }) {
  ids += 1;
  const id = `slider-${ids}`;
  const [inward, outward] = SCALES[scale];
  const range = element("input", { type: "range", id, min: 0, max: whole ? high - low : STEPS });
  const number = element("input", { type: "number", min: least, max: most, step: whole ? 1 : "any" });
  number.setAttribute("aria-label", unit ? `${label}, ${unit}` : label);
  const toRange = (each) => {
    const share = (inward(Math.min(Math.max(each, low), high)) - inward(low)) / (inward(high) - inward(low));
    return Math.round(share * range.max);
  };
  const fromRange = () => {
    const each = outward(inward(low) + (range.value / range.max) * (inward(high) - inward(low)));
    return whole ? Math.round(each) : scale === "logit" ? Number(each.toFixed(each > 0.99 ? 5 : 3)) : rounded(each);
  };
  const show = (each) => {
    range.value = toRange(each);
    range.setAttribute("aria-valuetext", `${each}${unit ? ` ${unit}` : ""}`);
    fill(range);
  };
  show(value);
  number.value = value;
  range.addEventListener("input", () => {
    const each = fromRange();
    number.value = each;
    range.setAttribute("aria-valuetext", `${each}${unit ? ` ${unit}` : ""}`);
    performance.mark("slider");
    changed(each);
  });
  number.addEventListener("change", () => {
    const each = Number(number.value);
    const valid = number.value !== "" && Number.isFinite(each) && each >= least && each <= most && (!whole || Number.isInteger(each));
    number.setAttribute("aria-invalid", String(!valid));
    if (!valid) {
      number.setCustomValidity(`Expected ${whole ? "an integer" : "a number"} from ${least} to ${most}.`);
      number.reportValidity();
      return;
    }
    number.setCustomValidity("");
    show(each);
    changed(each);
  });
  const name = element("label", { htmlFor: id }, label, unit ? element("span", { className: "unit" }, `  ${unit}`) : "");
  return element("div", { className: "slider" }, name, number, range);
}
