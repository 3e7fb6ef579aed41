// Keeps the picture up to date: asks for results, of which the newest wins, and then for numbers about them.

import { Refused, newestOnly, post, unpacked } from "./api.js";
import { packedScribbles, paintedLabels } from "./brush.js";
import { byId, on, state, update } from "./state.js";

const PAUSE = 120; // milliseconds without a change before numbers and findings are asked for
const SLOW = 600; // milliseconds after which the page says that it computes
let timer = 0;
let busy = 0;
let moved = null; // when the slider moved whose result is not shown yet

/** The settings to compute: those of the sliders, up to the shown iteration. */
export async function currentSettings(step = state.step) {
  const { crf, ...settings } = state.settings;
  const asked = { ...settings, source: state.source };
  if (step !== null) asked.iterations = Math.min(step, settings.iterations);
  if (settings.model === "kernels") asked.crf = crf;
  if (state.source !== "mask") asked.scribbles = await packedScribbles();
  return asked;
}

export const path = (name) => `images/${state.index}/${name}`;

/** Whether there is anything to compute; if not, the hint says what to do. */
function ready() {
  const few = state.source === "scribbles" && paintedLabels().size < 2;
  const hint = byId("hint");
  hint.hidden = !few;
  if (few) {
    hint.textContent = paintedLabels().size
      ? "Choose another label, and paint something else."
      : "Paint a stroke on the object, then choose another label and paint the background.";
  }
  return !few;
}

function refuse(message) {
  const note = byId("refused");
  note.hidden = !message;
  note.textContent = message;
}

async function solve(_, signal) {
  const { index, image } = state;
  const since = moved;
  moved = null;
  try {
    const settings = await currentSettings();
    const body = { settings, entropy: state.view === "entropy" };
    const response = await post(path("solve"), body, signal);
    const { header, planes } = await unpacked(response, image.rows * image.columns);
    if (index !== state.index || image !== state.image) return;
    refuse("");
    update({ result: { ...header, rows: planes[0], entropy: planes[1] ?? null } });
    if (since !== null) requestAnimationFrame(() => performance.measure("slider to picture", { start: since, end: performance.now() }));
  } catch (error) {
    if (error instanceof Refused && error.status !== 409) {
      refuse(error.message);
      return;
    }
    throw error;
  }
  clearTimeout(timer);
  timer = setTimeout(() => questions.ask({}), PAUSE);
}

/** Says that the result is computed, if that takes long. */
async function solveVisibly(job, signal) {
  busy ||= setTimeout(() => byId("frame").setAttribute("aria-busy", "true"), SLOW);
  try {
    await solve(job, signal);
    idle();
  } catch (error) {
    if (error.name !== "AbortError") idle(); // after an abort a newer request follows
    throw error;
  }
}

function idle() {
  clearTimeout(busy);
  busy = 0;
  byId("frame").removeAttribute("aria-busy");
}

const sliders = newestOnly(solveVisibly);

const questions = newestOnly(async (_, signal) => {
  const settings = await currentSettings();
  const shown = state.result;
  for (const name of ["numbers", "findings", "energies"]) {
    if (name === "numbers" && !state.image.truth) continue;
    try {
      const asked = name === "numbers" ? settings : await currentSettings(null); // the others are about all iterations
      const answer = await (await post(path(name), { settings: asked }, signal)).json();
      if (state.result === shown) dispatchEvent(new CustomEvent(name, { detail: answer }));
    } catch (error) {
      if (!(error instanceof Refused) || error.status === 409) throw error;
      if (state.result === shown) dispatchEvent(new CustomEvent(name, { detail: { error: error.message } }));
    }
  }
}, 0);

/** Asks for the result of the present settings. */
export function refresh() {
  clearTimeout(timer);
  questions.cancel();
  if (!state.image) return;
  if (!ready()) {
    sliders.cancel();
    idle();
    refuse("");
    update({ result: null });
    return;
  }
  moved = performance.now();
  sliders.ask({});
}

on("settings source step", refresh);
on("view", () => state.view === "entropy" && !state.result?.entropy && refresh());
