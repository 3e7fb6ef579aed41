// Scribbles: labels that are painted on the picture, with erasing and undo.

import { NOTHING } from "./layers.js";
import { imagePoint, redraw } from "./stage.js";
import { byId, on, state, update } from "./state.js";

const MOST_UNDO = 40;
const canvas = byId("picture");
let labels = null; // one byte per pixel
let version = 0;
let any = false; // whether a pixel is painted
let strokes = []; // {left, top, width, height, old}: the rectangle of a stroke as it was before
let stroke = null;
const kept = new Map(); // index of an image → its labels and strokes
let packing = { version: -1, text: "" };

/** The painted layer; null if nothing is painted. */
export function scribbles() {
  return any ? { labels, version } : null;
}

export const paintedLabels = () => (scribbles() ? new Set(labels.filter((label) => label !== NOTHING)) : new Set());

/** The layer as text for the server: base64 of zlib; "" if nothing is painted. */
export async function packedScribbles() {
  if (!scribbles()) return "";
  if (packing.version === version) return packing.text;
  const now = version;
  const stream = new Blob([labels]).stream().pipeThrough(new CompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  packing = { version: now, text: btoa(text) };
  return packing.text;
}

function changed() {
  version += 1;
  any = labels !== null && labels.some((label) => label !== NOTHING);
  byId("undo").disabled = !strokes.length;
  byId("clear").disabled = !any;
  redraw();
  canvas.dispatchEvent(new Event("painted"));
}

/** Takes up what was painted on this image before. */
function open() {
  const size = state.image.rows * state.image.columns;
  if (!kept.has(state.index)) kept.set(state.index, { labels: new Uint8Array(size).fill(NOTHING), strokes: [] });
  ({ labels, strokes } = kept.get(state.index));
  stroke = null;
  changed();
}

/** Removes all paint, as a stroke that can be undone. */
function clear() {
  strokes.push({ left: 0, top: 0, width: state.image.columns, height: state.image.rows, old: labels.slice() });
  labels.fill(NOTHING);
  changed();
}

function begin(event) {
  if (stroke) return; // a second finger
  startStroke(imagePoint(event), event.pointerId);
  canvas.setPointerCapture(event.pointerId);
}

function startStroke(at, pointer) {
  stroke = { pointer, before: labels.slice(), last: at, left: Infinity, top: Infinity, right: -1, bottom: -1 };
  lineTo(at);
}

/** Paints from the last point to this one, as discs half a radius apart. */
function lineTo([x, y]) {
  const [fromX, fromY] = stroke.last;
  const radius = Math.max(state.brush / 2, 0.5);
  const distance = Math.hypot(x - fromX, y - fromY);
  const parts = Math.max(1, Math.ceil(distance / Math.max(radius / 2, 0.5)));
  for (let part = 1; part <= parts; part++) {
    disc(fromX + ((x - fromX) * part) / parts, fromY + ((y - fromY) * part) / parts, radius);
  }
  stroke.last = [x, y];
  changed();
}

function disc(x, y, radius) {
  const { columns, rows } = state.image;
  const value = state.tool === "erase" ? NOTHING : state.label;
  const top = Math.max(0, Math.floor(y - radius));
  const bottom = Math.min(rows - 1, Math.ceil(y + radius));
  const left = Math.max(0, Math.floor(x - radius));
  const right = Math.min(columns - 1, Math.ceil(x + radius));
  for (let row = top; row <= bottom; row++) {
    for (let column = left; column <= right; column++) {
      if (Math.hypot(column + 0.5 - x, row + 0.5 - y) <= radius || radius <= 0.5) labels[row * columns + column] = value;
    }
  }
  if (right < left || bottom < top) return;
  stroke.left = Math.min(stroke.left, left);
  stroke.top = Math.min(stroke.top, top);
  stroke.right = Math.max(stroke.right, right);
  stroke.bottom = Math.max(stroke.bottom, bottom);
}

/** Keeps the rectangle that the stroke changed, to undo it. */
function end() {
  const { before, left, top, right, bottom } = stroke;
  stroke = null;
  if (right < left) return;
  const width = right - left + 1;
  const height = bottom - top + 1;
  const old = new Uint8Array(width * height);
  for (let row = 0; row < height; row++) {
    const from = (top + row) * state.image.columns + left;
    old.set(before.subarray(from, from + width), row * width);
  }
  strokes.push({ left, top, width, height, old });
  if (strokes.length > MOST_UNDO) strokes.shift();
  changed();
}

/** Reverts the last stroke; one that is being painted ends first. */
export function undo() {
  if (stroke) end();
  const last = strokes.pop();
  if (!last) return;
  for (let row = 0; row < last.height; row++) {
    labels.set(last.old.subarray(row * last.width, (row + 1) * last.width), (last.top + row) * state.image.columns + last.left);
  }
  changed();
}

const painting = (event) => state.tool !== "look" && state.image && event.button === 0;
const continues = (event) => stroke !== null && event.pointerId === stroke.pointer;

canvas.addEventListener("pointerdown", (event) => painting(event) && begin(event));
canvas.addEventListener("pointermove", (event) => {
  if (!continues(event)) return;
  for (const each of event.getCoalescedEvents?.() ?? [event]) lineTo(imagePoint(each));
});
for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => continues(event) && end());
canvas.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || state.tool === "look" || !state.image || state.pixel === null || stroke) return;
  event.preventDefault();
  const { columns } = state.image;
  startStroke([(state.pixel % columns) + 0.5, Math.floor(state.pixel / columns) + 0.5], null);
  end();
});
byId("undo").addEventListener("click", undo);
byId("clear").addEventListener("click", clear);
byId("brush").addEventListener("input", (event) => update({ brush: Number(event.target.value) }));
on("brush", () => (byId("brush").value = state.brush));
on("image", open);
