// One pixel: its marginals, the messages it gets, and whom it listens to.

import { Refused, newestOnly, post } from "./api.js";
import { css } from "./colours.js";
import { currentSettings, path } from "./solve.js";
import { imagePoint } from "./stage.js";
import { byId, element, on, percent, state, update } from "./state.js";

const MOST_LABELS = 6; // in the table
const noPixel = [...byId("pixel").children]; // what the page shows before a pixel is chosen
const POINT = matchMedia("(hover: none)").matches ? "Tap" : "Point at";
let coupled = true; // whether the inspected pixel takes part
const canvas = byId("picture");

const questions = newestOnly(async (_, signal) => {
  const { pixel, kernel, view, image } = state;
  if (pixel === null || !state.result) return;
  const settings = await currentSettings();
  try {
    const facts = await (await post(path("pixel"), { settings, pixel }, signal)).json();
    if (image !== state.image) return;
    coupled = facts.coupled && facts.messages.length > 0;
    show(facts, pixel);
    hint();
    if (view !== "listens" || !facts.coupled || !facts.messages.length) {
      update({ row: null });
      return;
    }
    const place = Math.min(kernel, facts.messages.length - 1);
    const row = await post(path("row"), { settings, pixel, kernel: place }, signal);
    const bytes = new Uint8Array(await row.arrayBuffer());
    if (image === state.image) update({ row: bytes });
  } catch (error) {
    if (!(error instanceof Refused) || error.status === 409) throw error;
    byId("pixel").replaceChildren(element("p", { className: "refused" }, error.message));
  }
});

/** A table of the most probable labels: marginals before and after, and what neighbours add to the scores. */
function show(facts, pixel) {
  const { columns } = state.image;
  const title = `Column ${pixel % columns}, row ${Math.floor(pixel / columns)}${state.pinned ? ", kept" : ""}`;
  const order = facts.numbers.map((_, row) => row).sort((a, b) => facts.after[b] - facts.after[a]).slice(0, MOST_LABELS);
  const head = ["Label", ...(facts.before ? ["before"] : []), "after", ...facts.messages.map((each) => names[each.kernel] ?? each.kernel)];
  const rows = order.map((row) => {
    const dot = element("span", { className: "dot" });
    dot.style.background = css(facts.numbers[row]);
    const cells = [
      element("td", {}, dot, String(facts.numbers[row])),
      ...(facts.before ? [element("td", {}, percent(facts.before[row]))] : []),
      element("td", {}, percent(facts.after[row])),
      ...facts.messages.map((each) => element("td", {}, signed(each.scores[row]))),
    ];
    return element("tr", {}, ...cells);
  });
  const table = element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...head.map((each) => element("th", { scope: "col" }, each)))),
    element("tbody", {}, ...rows),
  );
  const reached = facts.messages.map((each) => `about ${reach(each.pixels)} pixels (${names[each.kernel] ?? each.kernel})`);
  const note = facts.coupled
    ? `It listens to ${reached.join(" and ")}. The columns of kernels are the scores that those pixels add.`
    : "This pixel is far from every edge of the mask: it keeps its label, and listens to no other.";
  byId("pixel").replaceChildren(
    element("p", { className: "note" }, title),
    table,
    facts.coupled && !reached.length ? "" : element("p", { className: "note" }, note),
  );
  readOut(facts, title, order[0]);
  if (state.pinned) byId("pixel").firstChild.setAttribute("role", "status");
  drawKernels(facts);
}

/** The most probable label under the picture, where it is seen while the pointer moves. */
function readOut(facts, title, row) {
  const dot = element("span", { className: "dot" });
  dot.style.background = css(facts.numbers[row]);
  const change = facts.before ? `${percent(facts.before[row])} → ${percent(facts.after[row])}` : percent(facts.after[row]);
  byId("read-out").replaceChildren(`${title}: `, dot, `label ${facts.numbers[row]}, `, change);
}

const names = { place: "spatial", pixel: "bilateral" }; // of the learnt model
const signed = (value) => (value >= 0 ? "+" : "−") + Math.abs(value).toFixed(2);
const reach = (count) => (count < 10 ? count.toFixed(1) : Math.round(count).toLocaleString("en"));

/** The choice of the kernel whose row is shown. */
function drawKernels(facts) {
  const box = byId("rows");
  const legend = element("legend", { className: "hidden" }, "Kernel");
  const inputs = facts.messages.map((each, place) => {
    const input = element("input", { type: "radio", name: "row", value: place, checked: place === Math.min(state.kernel, facts.messages.length - 1) });
    input.addEventListener("change", () => update({ kernel: place }));
    return element("label", {}, input, element("span", {}, names[each.kernel] ?? each.kernel));
  });
  if (box.querySelectorAll("input").length !== inputs.length || !box.contains(document.activeElement)) box.replaceChildren(legend, ...inputs);
  box.hidden = state.view !== "listens" || inputs.length < 2;
}

function pixelAt(event) {
  const [x, y] = imagePoint(event).map(Math.floor);
  const { columns, rows } = state.image;
  return x >= 0 && y >= 0 && x < columns && y < rows ? y * columns + x : null;
}

canvas.addEventListener("pointermove", (event) => {
  if (state.image && state.tool === "look" && !state.pinned && event.pointerType === "mouse") update({ pixel: pixelAt(event) });
});
canvas.addEventListener("click", (event) => {
  if (!state.image || state.tool !== "look") return;
  const pixel = pixelAt(event);
  update({ pixel, pinned: !(state.pinned && pixel === state.pixel) });
});
canvas.addEventListener("keydown", (event) => {
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const move = moves[event.key];
  if (!move || !state.image) return;
  event.preventDefault();
  event.stopPropagation();
  const { columns, rows } = state.image;
  const far = event.shiftKey ? 10 : 1;
  const now = state.pixel ?? Math.floor(rows / 2) * columns + Math.floor(columns / 2);
  const x = Math.min(Math.max((now % columns) + move[0] * far, 0), columns - 1);
  const y = Math.min(Math.max(Math.floor(now / columns) + move[1] * far, 0), rows - 1);
  update({ pixel: y * columns + x, pinned: true });
});

function legend() {
  const { view } = state;
  byId("heat").hidden = view !== "entropy" && view !== "listens";
  const words = { entropy: ["certain", "undecided"], listens: ["no weight", "largest weight"] }[view] ?? ["", ""];
  [byId("legend-low").textContent, byId("legend-high").textContent] = words;
  byId("rows").hidden = view !== "listens" || byId("rows").querySelectorAll("input").length < 2;
}

on("view", legend);
on("pixel pinned kernel view result", () => questions.ask({}));
on("image", () => {
  update({ pixel: null, pinned: false, row: null });
  byId("pixel").replaceChildren(...noPixel.map((each) => each.cloneNode(true)));
});
/** Says what to do if no pixel is chosen, under the picture and on it where nothing else is shown. */
function hint() {
  const { pixel, result, tool, view, row } = state;
  const open = pixel === null || !result;
  if (open) byId("read-out").textContent = tool === "look" && result ? `${POINT} a pixel` : "";
  const note = byId("point-hint");
  note.hidden = view !== "listens" || !result || (!open && (coupled || row));
  note.textContent = open
    ? `${tool === "look" ? POINT : `Choose Look, and ${POINT.toLowerCase()}`} a pixel to see which pixels it listens to.`
    : "This pixel is far from every edge of the mask: it listens to no other.";
}
on("image pixel result tool view row", hint);
