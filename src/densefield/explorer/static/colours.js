// The colours of labels, and of heat.

// Label 0 is usually the background: a quiet grey, which results do not show.
const LABELS = [
  [100, 116, 139], [14, 165, 233], [244, 63, 94], [34, 197, 94], [245, 158, 11], [168, 85, 247], [20, 184, 166],
  [236, 72, 153], [132, 204, 22], [99, 102, 241], [249, 115, 22], [6, 182, 212], [217, 70, 239], [234, 179, 8],
  [59, 130, 246], [239, 68, 68], [16, 185, 129], [139, 92, 246], [251, 146, 60], [74, 222, 128], [192, 132, 252],
];

/** Red, green, blue of a label; labels beyond the list get hues a golden angle apart. */
export function labelColour(label) {
  if (label < LABELS.length) return LABELS[label];
  const hue = ((label * 137.508) % 360) / 60;
  const x = Math.round(215 * (1 - Math.abs((hue % 2) - 1)));
  return [[215, x, 40], [x, 215, 40], [40, 215, x], [40, x, 215], [x, 40, 215], [215, 40, x]][Math.floor(hue)];
}

export const css = (label) => `rgb(${labelColour(label).join(" ")})`;

/** Black or white, whichever is easier to read on the label's colour. */
export function ink(label) {
  const [r, g, b] = labelColour(label).map((value) => (value / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000" : "#fff";
}

/** A pixel of ImageData as one number, in the byte order of this computer. */
export function rgba([r, g, b], alpha) {
  const bytes = new Uint8Array([r, g, b, alpha]);
  return new Uint32Array(bytes.buffer)[0];
}

const HEAT = [[16, 7, 31], [81, 18, 124], [182, 54, 121], [251, 136, 97], [252, 253, 191]];

/** 256 pixels from dark to light; dark ones are transparent, so that the photo below is seen. */
export const heat = Uint32Array.from({ length: 256 }, (_, value) => {
  const at = (value / 255) * (HEAT.length - 1);
  const low = Math.min(Math.floor(at), HEAT.length - 2);
  const mixed = HEAT[low].map((from, channel) => Math.round(from + (HEAT[low + 1][channel] - from) * (at - low)));
  return rgba(mixed, Math.min(255, 110 + 2 * value));
});
