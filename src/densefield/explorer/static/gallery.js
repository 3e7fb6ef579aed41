// The images: loading one, and going to the next; files that cannot be read are skipped with a message.

import { Refused, get, unpacked } from "./api.js";
import { apply } from "./model.js";
import { byId, element, state, update } from "./state.js";

let loading = 0;
let wanted = 0; // the image to show, once it is loaded
const failed = new Map(); // index of an image that cannot be read → its message
const chosen = { mask: null, paint: null }; // tool, settings and preset for images with and without a mask

function notice(lines) {
  const box = byId("notice");
  box.hidden = !lines.length;
  const close = element("button", { className: "plain", type: "button" }, "Close");
  close.addEventListener("click", () => (box.hidden = true));
  box.replaceChildren(element("span", {}, lines.join("\n")), close);
}

async function labels(index, kind, pixels) {
  const { header, planes } = await unpacked(await get(`images/${index}/labels/${kind}`), pixels);
  return { ...header, rows: planes[0] };
}

async function load(index) {
  const image = await (await get(`images/${index}`)).json();
  const pixels = image.rows * image.columns;
  const [photo, before, truth] = await Promise.all([
    get(`images/${index}/photo`).then((response) => response.blob()).then(createImageBitmap),
    image.mask ? labels(index, "mask", pixels) : null,
    image.truth ? labels(index, "truth", pixels) : null,
  ]);
  return { image, photo, before, truth };
}

/** Shows an image; one that cannot be read is skipped in direction `step`, if that is not 0. */
export async function open(index, step = 0) {
  loading += 1;
  const mine = loading;
  const count = state.gallery.images.length;
  const skipped = [];
  for (let tried = 0, at = index; tried < count; tried++, at = (at + step + count) % count) {
    wanted = at;
    try {
      if (step !== 0 && failed.has(at)) throw new Error(failed.get(at));
      const loaded = await load(at);
      failed.delete(at);
      if (mine !== loading) return;
      notice(skipped.map((line) => `Skipped: ${line}`));
      byId("images").value = at;
      show(at, loaded);
      return;
    } catch (error) {
      if (error instanceof Refused && error.status === 400) failed.set(at, error.message);
      if (mine !== loading) return;
      skipped.push(error.message);
      if (step === 0) break;
    }
  }
  wanted = state.index;
  byId("images").value = state.index;
  notice(skipped);
}

/** Shows a loaded image, with the tool and the settings chosen for images of its kind: with a mask, or to paint on. */
function show(index, loaded) {
  const kindOf = (image) => (image.mask ? "mask" : "paint");
  const kind = kindOf(loaded.image);
  const before = state.image && kindOf(state.image);
  if (before) chosen[before] = { tool: state.tool, settings: state.settings, preset: state.preset };
  const other = before !== kind;
  const kept = other ? chosen[kind] : null;
  const source = kind === "mask" ? "mask" : "scribbles";
  const tool = !other ? state.tool : (kept?.tool ?? (kind === "mask" ? "look" : "paint"));
  update({ index, result: null, step: null, source, ...loaded, tool });
  if (other && !kept) apply(startPreset(loaded.image));
  else if (kept) apply(kept);
  else update({ settings: { ...state.settings } }); // asks for the result
}

/** The CRF of a file if one is given, wide kernels for paint alone, else the learnt model. */
function startPreset(image) {
  const named = (name) => state.gallery.presets.find((preset) => preset.name === name);
  return named("CRF file") ?? (image.mask ? named("Learnt") : named("Scribbles"));
}

export const next = (step) => {
  const count = state.gallery.images.length;
  if (count > 1) open((wanted + step + count) % count, step);
};

export async function start() {
  const gallery = await (await get("gallery")).json();
  update({ gallery });
  const options = gallery.images.map((name, index) => element("option", { value: index }, `${index + 1} / ${gallery.images.length}  ${name}`));
  byId("images").replaceChildren(...options);
  byId("gallery").hidden = gallery.images.length < 2;
  await open(0, 1);
  if (gallery.skipped.length && byId("notice").hidden) notice(gallery.skipped.map((line) => `Skipped: ${line}`));
}

byId("previous").addEventListener("click", () => next(-1));
byId("next").addEventListener("click", () => next(1));
byId("images").addEventListener("change", (event) => open(Number(event.target.value)));
