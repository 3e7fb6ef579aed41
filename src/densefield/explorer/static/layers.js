// Pictures of labels, heat and scribbles, one pixel per pixel of the image.

import { heat, labelColour, rgba } from "./colours.js";

export const NOTHING = 255; // no label: unknown, or not painted

/** The colours of rows of labels; label 0 and unknown are transparent unless `every` label is shown. */
function palette(numbers, every) {
  const colours = new Uint32Array(256);
  numbers.forEach((number, row) => {
    if (every || number !== 0) colours[row] = rgba(labelColour(number), 255);
  });
  return colours;
}

function canvasOf(pixels, columns, rows) {
  const canvas = new OffscreenCanvas(columns, rows);
  const image = new ImageData(new Uint8ClampedArray(pixels.buffer), columns, rows);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Labels as areas of colour. */
export function filled(rows, numbers, width, height) {
  const colours = palette(numbers, false);
  const pixels = new Uint32Array(rows.length);
  for (let i = 0; i < rows.length; i++) pixels[i] = colours[rows[i]];
  return canvasOf(pixels, width, height);
}

/** Labels as outlines, `thick` pixels on the inner side of each label but the background. */
export function outlined(rows, numbers, width, height, thick) {
  const colours = palette(numbers, false);
  const pixels = new Uint32Array(rows.length);
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      const own = rows[i];
      if (colours[own] === 0) continue;
      const edge =
        (x >= thick && rows[i - thick] !== own) ||
        (x + thick < width && rows[i + thick] !== own) ||
        (y >= thick && rows[i - thick * width] !== own) ||
        (y + thick < height && rows[i + thick * width] !== own);
      if (edge) pixels[i] = colours[own];
    }
  }
  return canvasOf(pixels, width, height);
}

/** Bytes as heat; the photo is seen where there is little. */
export function heated(values, width, height) {
  const pixels = new Uint32Array(values.length);
  for (let i = 0; i < values.length; i++) pixels[i] = heat[values[i]];
  return canvasOf(pixels, width, height);
}

/** Painted labels, of which the background shows too. */
export function painted(layer, width, height) {
  const colours = palette(Array.from({ length: 255 }, (_, label) => label), true);
  const pixels = new Uint32Array(layer.length);
  for (let i = 0; i < layer.length; i++) pixels[i] = colours[layer[i]];
  return canvasOf(pixels, width, height);
}
