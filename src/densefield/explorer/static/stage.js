// The picture: photo, labels, swipe, heat, scribbles and the inspected pixel.

import { scribbles } from "./brush.js";
import { filled, heated, outlined, painted } from "./layers.js";
import { byId, on, state, update } from "./state.js";

const PIXELATED = 6; // pixels of the screen for one of the image, from which on its pixels are seen
const canvas = byId("picture");
const swipe = byId("swipe");
const layers = new Map(); // name → {key, canvas}: drawn once, until what they show changes
let scale = 1; // pixels of the canvas for a pixel of the image
let wanted = 0;
let small = false; // whether the picture has no room for words

/** The layer of a name, drawn again if any of `key` is another. */
function layer(name, key, draw) {
  const found = layers.get(name);
  if (found && found.key.every((part, place) => part === key[place])) return found.canvas;
  const made = draw();
  layers.set(name, { key, canvas: made });
  return made;
}

function labelsLayer(name, labels) {
  if (!labels) return null;
  const { columns, rows } = state.image;
  const outline = state.style === "outline";
  const thick = outline ? Math.max(1, Math.round((2 * devicePixelRatio) / scale)) : 0;
  return layer(name, [labels.rows, outline, thick], () =>
    outline
      ? outlined(labels.rows, labels.numbers, columns, rows, thick)
      : filled(labels.rows, labels.numbers, columns, rows),
  );
}

/** The labels before inference: those of the mask, unless labels are painted only. */
const input = () => (state.source === "scribbles" ? null : state.before);

/** Fits the picture into the window, and draws it. */
export function layout() {
  if (!state.image) return;
  const { columns, rows } = state.image;
  const width = document.querySelector(".toolbar").clientWidth;
  const around = 372; // of toolbars, chart and legend
  const height = innerWidth > 1000 ? Math.max(260, innerHeight - around) : Math.max(200, innerHeight * 0.45);
  const zoom = Math.min(width / columns, height / rows);
  canvas.style.width = `${Math.round(columns * zoom)}px`;
  canvas.style.height = `${Math.round(rows * zoom)}px`;
  canvas.width = Math.round(columns * zoom * devicePixelRatio);
  canvas.height = Math.round(rows * zoom * devicePixelRatio);
  scale = canvas.width / columns;
  swipe.style.setProperty("--height", `${Math.round(rows * zoom)}px`);
  document.documentElement.style.setProperty("--picture", `${Math.round(rows * zoom)}px`);
  small = columns * zoom < 200 || rows * zoom < 60;
  describe();
  draw();
}

/** Draws before the next frame, once for many changes. */
export function redraw() {
  cancelAnimationFrame(wanted);
  wanted = requestAnimationFrame(draw);
}

export function draw() {
  if (!state.image || !state.photo) return;
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  context.imageSmoothingEnabled = scale < PIXELATED * devicePixelRatio;
  context.drawImage(state.photo, 0, 0, width, height);
  const { view } = state;
  if (view === "entropy" || view === "listens") drawHeat(context);
  else if (view === "compare") {
    const at = Math.round(state.swipe * width);
    drawPart(context, labelsLayer("before", input()), 0, at);
    drawPart(context, labelsLayer("after", state.result), at, width);
    context.fillStyle = "#fff";
    context.fillRect(at - devicePixelRatio, 0, 2 * devicePixelRatio, height);
  } else {
    const shown = { after: state.result, before: input(), truth: state.truth }[view];
    drawPart(context, labelsLayer(view, shown), 0, width);
  }
  const layerOfBrush = scribbles();
  if (layerOfBrush && view !== "truth") {
    const { columns, rows } = state.image;
    const strokes = layer("painted", [layerOfBrush.version], () => painted(layerOfBrush.labels, columns, rows));
    context.globalAlpha = state.view === "after" ? 0.5 : 0.95;
    context.imageSmoothingEnabled = false;
    context.drawImage(strokes, 0, 0, width, height);
    context.globalAlpha = 1;
  }
  drawPixel(context);
}

function drawPart(context, labels, from, to) {
  if (!labels || to <= from) return;
  context.save();
  context.beginPath();
  context.rect(from, 0, to - from, canvas.height);
  context.clip();
  context.globalAlpha = state.style === "outline" ? 1 : state.opacity;
  context.imageSmoothingEnabled = false;
  context.drawImage(labels, 0, 0, canvas.width, canvas.height);
  context.restore();
}

function drawHeat(context) {
  const values = state.view === "entropy" ? state.result?.entropy : state.row;
  if (!values) return;
  const { columns, rows } = state.image;
  const shown = layer("heat", [values], () => heated(values, columns, rows));
  context.globalAlpha = 0.35 + 0.65 * state.opacity;
  context.drawImage(shown, 0, 0, canvas.width, canvas.height);
  if (state.view === "listens") {
    context.globalCompositeOperation = "lighter"; // single bright pixels get a glow, by which they are seen
    context.filter = `blur(${Math.max(scale, 2 * devicePixelRatio)}px)`;
    context.drawImage(shown, 0, 0, canvas.width, canvas.height);
    context.filter = "none";
    context.globalCompositeOperation = "source-over";
  }
  context.globalAlpha = 1;
}

function drawPixel(context) {
  if (state.pixel === null || (state.tool !== "look" && !state.pinned)) return;
  const x = ((state.pixel % state.image.columns) + 0.5) * scale;
  const y = (Math.floor(state.pixel / state.image.columns) + 0.5) * scale;
  const radius = 6 * devicePixelRatio;
  for (const [colour, wide] of [["#000", 4], ["#fff", 2]]) {
    context.strokeStyle = colour;
    context.lineWidth = wide * devicePixelRatio * 0.75;
    context.beginPath();
    context.arc(x, y, radius, 0, 7);
    context.stroke();
  }
}

/** Column and row of the image under a pointer, as numbers with fractions. */
export function imagePoint(event) {
  const box = canvas.getBoundingClientRect();
  return [
    ((event.clientX - box.left) / box.width) * state.image.columns,
    ((event.clientY - box.top) / box.height) * state.image.rows,
  ];
}

function describe() {
  const views = {
    compare: "input at the left of the boundary, result at the right",
    after: "result", before: "input", truth: "true mask", entropy: "entropy", listens: "pixels that the inspected pixel listens to",
  };
  canvas.setAttribute("aria-label", `${state.image.name}, ${state.image.columns} by ${state.image.rows} pixels: ${views[state.view]}`);
  const compare = state.view === "compare";
  swipe.hidden = !compare;
  byId("tag-before").hidden = !compare || small;
  byId("tag-after").hidden = !compare || small;
  byId("tag-before").textContent = state.before && state.source !== "scribbles" ? "Input" : "Photo";
  byId("frame").className = `frame ${state.tool}${small ? " small" : ""}`;
}

swipe.addEventListener("input", () => update({ swipe: swipe.value / 1000 }));
on("view style opacity swipe result before truth pixel row tool pinned source", redraw);
on("view image source before tool", () => state.image && describe());
on("image photo view", layout);
new ResizeObserver(layout).observe(document.querySelector("main"));
addEventListener("resize", layout);
