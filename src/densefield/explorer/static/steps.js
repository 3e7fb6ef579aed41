// Iterations one by one: a slider, playing, and the free energy of each.

import { byId, on, state, update } from "./state.js";
import { fill } from "./tools.js";

const PAUSE = 350; // milliseconds for each iteration while playing
const range = byId("step");
const play = byId("play");
const SVG = "http://www.w3.org/2000/svg";
let playing = 0;
let energies = [];

function show() {
  const { iterations } = state.settings;
  const step = Math.min(state.step ?? iterations, iterations);
  range.max = iterations;
  range.value = step;
  range.disabled = play.disabled = iterations === 0;
  fill(range);
  byId("step-text").textContent = `${step} of ${iterations}`;
  range.setAttribute("aria-valuetext", `iteration ${step} of ${iterations}`);
  drawChart();
}

/** Shows one iteration; the last one follows the number of iterations. */
function go(step) {
  update({ step: step >= state.settings.iterations ? null : step });
}

export function toggle() {
  if (playing) return stop();
  let step = state.step === null ? 0 : state.step;
  go(step);
  play.textContent = "❚❚";
  play.setAttribute("aria-label", "Pause");
  playing = setInterval(() => {
    step += 1;
    go(step);
    if (step >= state.settings.iterations) stop();
  }, PAUSE);
}

function stop() {
  clearInterval(playing);
  playing = 0;
  play.textContent = "▶";
  play.setAttribute("aria-label", "Play the iterations");
}

function made(tag, attributes, text = "") {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  return node;
}

/** The free energy of every iteration as a line of points; a click on one shows that iteration. */
function drawChart() {
  const box = byId("chart");
  if (energies.length < 2) {
    box.replaceChildren();
    return;
  }
  const width = box.clientWidth || 300;
  const [low, high] = [Math.min(...energies), Math.max(...energies)];
  const last = energies.length - 1;
  const x = (step) => 8 + (step / last) * (width - 16);
  const y = (level) => 52 - ((level - low) / Math.max(high - low, 1e-9)) * 32;
  const svg = made("svg", { viewBox: `0 0 ${width} 64`, role: "img" });
  const fall = (energies[0] - energies[last]).toPrecision(4);
  const some = last < state.settings.iterations;
  svg.setAttribute("aria-label", `Free energy in ${some ? "the first " : ""}${last} iterations; it falls by ${fall}`);
  svg.append(made("text", { x: 8, y: 11, class: "axis" }, some ? `Free energy, first ${last} iterations` : "Free energy"));
  svg.append(made("text", { x: width - 8, y: 11, class: "axis", "text-anchor": "end" }, `${format(energies[0])} → ${format(energies.at(-1))}`));
  svg.append(made("polyline", { points: energies.map((level, step) => `${x(step)},${y(level)}`).join(" "), class: "line" }));
  const shown = state.step ?? state.settings.iterations;
  energies.forEach((level, step) => {
    const point = made("circle", { cx: x(step), cy: y(level), r: step === shown ? 5 : 3, class: step === shown ? "point now" : "point" });
    point.append(made("title", {}, `Iteration ${step}: ${level.toPrecision(7)}`));
    point.addEventListener("click", () => go(step));
    svg.append(point);
  });
  box.replaceChildren(svg);
}

const format = (value) => (Math.abs(value) >= 1e4 ? `${(value / 1000).toFixed(1)} k` : value.toFixed(1)).replace("-", "−");

range.addEventListener("input", () => {
  stop();
  go(Number(range.value));
});
play.addEventListener("click", toggle);
addEventListener("energies", ({ detail }) => {
  energies = detail.energies ?? [];
  drawChart();
});
addEventListener("resize", drawChart);
on("settings step", show);
on("image source", () => {
  energies = [];
  stop();
  show();
});
