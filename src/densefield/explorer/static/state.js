// What the page shows, in one object; parts of the page listen for changes of its fields.

export const state = {
  gallery: null, // images, skipped, presets, out
  index: 0,
  image: null, // name, rows, columns, mask, numbers, truth
  photo: null, // ImageBitmap
  before: null, // labels of the mask: {numbers, rows}
  truth: null,
  result: null, // {numbers, rows, entropy, changed, …}
  settings: { model: "learnt", iterations: 5, roughness: null, confidence: 0.7, temperature: 1, scribble_confidence: 0.9999, crf: null },
  preset: "",
  source: "mask", // mask, both or scribbles
  view: "compare",
  style: "fill",
  opacity: 0.55,
  swipe: 0.5,
  tool: "look",
  label: 1,
  brush: 8,
  labels: [0, 1], // that can be painted
  step: null, // the shown iteration; null for the last
  pixel: null, // the inspected pixel by index
  pinned: false,
  kernel: Infinity, // whose row is shown; the last one if there are fewer
  row: null, // its heat, one byte per pixel
};

const listeners = [];

/** Calls `listener` after changes of any of the named fields. */
export function on(names, listener) {
  listeners.push({ names: names.split(" "), listener });
}

export function update(changes) {
  const changed = Object.keys(changes).filter((name) => state[name] !== changes[name]);
  Object.assign(state, changes);
  for (const { names, listener } of listeners) {
    if (names.some((name) => changed.includes(name))) listener(state);
  }
}

/** Changes some settings; the preset no longer describes them. */
export function set(changes, preset = "") {
  update({ settings: { ...state.settings, ...changes }, preset });
}

export const byId = (id) => document.getElementById(id);

/** An element with properties and children; text is never parsed as HTML. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made && name !== "list") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const nameOf = (control) => {
  const name = control.getAttribute("aria-label") ?? control.labels?.[0]?.textContent ?? control.textContent;
  return [control.type, name, control.type === "radio" ? control.value : ""].join();
};

/** Replaces the children of an element; the focus stays on the control of the same name, or on the one in its place. */
export function replaceControls(box, ...children) {
  const controls = () => [...box.querySelectorAll("button, input, select, summary")];
  const before = controls();
  const place = before.indexOf(document.activeElement);
  if (place < 0) return box.replaceChildren(...children);
  const name = nameOf(before[place]);
  const rank = before.slice(0, place).filter((each) => nameOf(each) === name).length; // of several with this name
  box.replaceChildren(...children);
  const after = controls();
  const same = after.filter((each) => nameOf(each) === name);
  (same[rank] ?? same[0] ?? after[Math.min(place, after.length - 1)])?.focus({ preventScroll: true });
}

export function percent(share, digits = 1) {
  return share === null || share === undefined ? "–" : `${(100 * share).toFixed(digits)} %`;
}
