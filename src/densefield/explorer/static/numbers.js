// Numbers about the result, and findings.

import { byId, element, on, percent, state } from "./state.js";

let truth = null; // {before, after}: against the true mask
let outdated = false; // whether they are those of the result before

function figure(name, value, change = "") {
  return element("div", { className: "figure" }, element("b", {}, value, change), element("span", {}, name));
}

/** A metric after inference, and by how much it differs from before; it has its place before it is known. */
function compared(name, key) {
  const after = truth?.after[key];
  if (after === undefined) return figure(name, "–");
  const before = truth.before?.[key];
  if (before === undefined) return figure(name, (100 * after).toFixed(1));
  const change = Number((100 * (after - before)).toFixed(1));
  const mark = change === 0 ? "" : element("i", { className: change > 0 ? "up" : "down" }, `${change > 0 ? "+" : "−"}${Math.abs(change).toFixed(1)}`);
  return figure(`${name}, was ${(100 * before).toFixed(1)}`, (100 * after).toFixed(1), mark);
}

function show() {
  const { result, image } = state;
  if (!result) {
    byId("numbers").replaceChildren(element("p", { className: "note" }, "No result yet."));
    return;
  }
  const total = image.rows * image.columns;
  const largest = result.pixels.map((count, row) => [count, result.numbers[row]]).filter(([, label]) => label !== 0);
  largest.sort((a, b) => b[0] - a[0]);
  const figures = [];
  if (image.truth) {
    const against = [compared("mean IoU", "mean_iou"), compared("edge accuracy", "edge_accuracy")];
    for (const each of against) each.classList.toggle("outdated", outdated);
    figures.push(...against);
  }
  if (result.spread !== undefined) figures.push(figure("spread to", percent(result.spread)));
  else if (result.changed !== null) figures.push(figure("changed", percent(result.changed)));
  for (const [count, label] of largest.slice(0, figures.length > 2 ? 1 : 2)) figures.push(figure(`label ${label}`, percent(count / total)));
  const size = `${(total / 1e6).toFixed(1)} megapixels: results take seconds, and about ${((210 * total) / 1e9).toFixed(1)} GB of memory.`;
  const note = image.large ? element("p", { className: "note" }, `${size} Explore a smaller copy.`) : null;
  byId("numbers").replaceChildren(element("div", { className: "figures" }, ...figures), ...(note ? [note] : []));
}

addEventListener("numbers", ({ detail }) => {
  truth = detail.truth ?? null;
  outdated = false;
  show();
});
addEventListener("findings", ({ detail }) => {
  const found = detail.findings ?? [{ severity: "problem", what: detail.error, numbers: "", cure: "" }];
  const items = found.map((each) =>
    element(
      "li",
      { className: each.severity },
      each.severity === "problem" ? element("span", { className: "kind" }, "Problem: ") : null,
      each.what,
      each.numbers ? element("small", {}, `Seen: ${each.numbers}`) : null,
      each.cure ? element("small", {}, each.severity === "problem" ? `Cure: ${each.cure}` : each.cure) : null,
    ),
  );
  byId("findings").replaceChildren(...items);
});
on("result", () => {
  outdated = true;
  show();
});
on("image", () => {
  truth = null;
  byId("findings").replaceChildren();
  show();
});
