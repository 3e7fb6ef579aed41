// The viewer: a list of images to filter and sort, and two layers with a divider between them.
(() => {
  const source = document.getElementById("gallery");
  if (!source) return;
  if (!("DecompressionStream" in window)) {
    source.before("The pictures need a browser of 2023 or later.");
    return;
  }
  const index = JSON.parse(source.textContent);
  const at = (id) => document.getElementById(id);
  const [list, swipe, left, right] = ["list", "swipe", "left", "right"].map(at);
  const [order, classes, names, opacity] = ["order", "class-filter", "name-filter", "opacity"].map(at);
  const stage = document.querySelector(".swipe");
  const TRUTH = "truth", PHOTO = "photo";
  const title = (method) => (method === TRUTH ? "truth" : method === PHOTO ? "photo" : index.methods[method].title);
  const percent = (value) => (value === null || value === undefined ? "–" : (100 * value).toFixed(1));
  let shown = []; // numbers of the images in the list, in its order
  let current = 0; // number of the image
  let picture = null;

  const make = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const option = (value, text) => make("option", text, { value });

  // --- numbers of images -------------------------------------------------------------------------------------------
  const chosenClass = () => (classes.value === "" ? null : Number(classes.value));
  const after = () => right.value;
  function before() { // the method that gains are over: the left one, or another of the right one's evaluation
    if (left.value !== TRUTH && left.value !== PHOTO) return left.value;
    const run = index.methods[after()].run;
    const other = index.methods.findIndex((method, number) => method.run === run && String(number) !== after());
    return other < 0 ? after() : String(other);
  }
  function quality(image, method) {
    const result = image.results[method];
    if (!result) return null;
    return (chosenClass() === null ? result.mean : result.iou[chosenClass()]) ?? null;
  }
  function gain(image) {
    const [a, b] = [quality(image, before()), quality(image, after())];
    return a === null || b === null ? null : b - a;
  }
  function signed(value) {
    if (value === null) return "–";
    const points = Math.round(1000 * value) / 10; // rounded first: zero has no sign
    return `${points < 0 ? "−" : points > 0 ? "+" : ""}${Math.abs(points).toFixed(1)}`;
  }
  const measure = () => (chosenClass() === null ? "mean IoU" : `${index.classes[chosenClass()]} IoU`);

  // --- the list ----------------------------------------------------------------------------------------------------
  const ORDERS = {
    gain: ["largest gain first", (a, b) => gain(b) - gain(a)],
    loss: ["largest loss first", (a, b) => gain(a) - gain(b)],
    worst: ["worst first", (a, b) => quality(a, after()) - quality(b, after())],
    best: ["best first", (a, b) => quality(b, after()) - quality(a, after())],
    name: ["by name", (a, b) => a.id.localeCompare(b.id, undefined, { numeric: true })],
  };
  const known = (image) => (order.value === "gain" || order.value === "loss" ? gain(image) : order.value === "name" ? 0 : quality(image, after()));

  const items = index.images.map((image, number) => {
    const item = make("li", "");
    const button = make("button", "", { type: "button", tabindex: "-1", title: image.id }); // that of the current image is 0
    const thumbnail = make("img", "", { alt: "" });
    button.append(thumbnail, make("span", image.id, { class: "id" }), make("span", "", { class: "numbers" }));
    button.addEventListener("click", () => select(number));
    item.append(button);
    return item;
  });
  const lazy = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      lazy.unobserve(entry.target);
      entry.target.querySelector("img").src = pictures.thumbnail(items.indexOf(entry.target));
    }
  }, { root: list, rootMargin: "300px" });
  items.forEach((item) => lazy.observe(item));

  function arrange(keep) { // the current image stays the chosen one, or the first of the list is
    const label = chosenClass(), text = names.value.toLowerCase();
    shown = index.images.map((_, number) => number).filter((number) => {
      const image = index.images[number];
      return (label === null || image.labels.includes(label)) && image.id.toLowerCase().includes(text) && image.results[after()];
    });
    const compare = ORDERS[order.value][1];
    shown.sort((a, b) => {
      const [x, y] = [index.images[a], index.images[b]];
      const blanks = (known(x) === null) - (known(y) === null);
      return blanks || (known(x) === null ? 0 : compare(x, y)) || a - b;
    });
    for (const number of shown) {
      const image = index.images[number];
      items[number].querySelector(".numbers").textContent =
        `${measure()} ${percent(quality(image, after()))}${before() === after() ? "" : ` (${signed(gain(image))})`}`;
    }
    list.replaceChildren(...shown.map((number) => items[number]));
    at("count").textContent = `${shown.length} of ${index.images.length} images`;
    at("gain-over").textContent = before() === after() ? "" : `gain over ${title(before())}`;
    stage.parentElement.classList.toggle("empty", !shown.length);
    at("no-match").hidden = Boolean(shown.length);
    at("no-match").textContent = `No image${label === null ? "" : ` with ${index.classes[label]}`} has ${text ? "this name" : "this result"}.`;
    if (shown.length) select(keep && shown.includes(current) ? current : shown[0]);
  }

  async function select(number) {
    const focused = list.contains(document.activeElement);
    items[current].removeAttribute("aria-current");
    items[current].firstChild.tabIndex = -1;
    current = number;
    const item = items[number];
    item.setAttribute("aria-current", "true");
    item.firstChild.tabIndex = 0;
    if (focused) item.firstChild.focus({ preventScroll: true });
    if (list.scrollWidth > list.clientWidth) list.scrollLeft = item.offsetLeft - list.offsetLeft - (list.clientWidth - item.offsetWidth) / 2;
    else if (item.offsetTop < list.scrollTop || item.offsetTop + item.offsetHeight > list.scrollTop + list.clientHeight) {
      list.scrollTop = item.offsetTop - list.clientHeight / 2;
    }
    const decoded = await pictures.get(number);
    if (current !== number) return; // another one was chosen meanwhile
    picture = decoded;
    draw();
    const next = shown[shown.indexOf(number) + 1];
    if (next !== undefined) pictures.get(next); // decoded in advance
  }

  function move(change) {
    const place = shown.indexOf(current) + change;
    if (place >= 0 && place < shown.length) select(shown[place]);
  }

  // --- the two layers ----------------------------------------------------------------------------------------------
  const view = () => document.querySelector('input[name="view"]:checked').value;
  const has = (method) => method === TRUTH || method === PHOTO || method in picture.labels;
  function layer(side) {
    const method = side.value, kind = view();
    if (method === PHOTO || !has(method)) return { kind: "photo", method: PHOTO };
    if (method === TRUTH) return { kind: "labels", method: TRUTH };
    if (kind === "changes") {
      if (side === left) return { kind: "labels", method };
      return has(before()) ? { kind, method, before: before() } : { kind: "labels", method };
    }
    return { kind, method };
  }
  function caption({ kind, method, before: from }) {
    if (kind === "changes") return `changes from ${title(from)} to ${title(method)}`;
    return kind === "labels" || kind === "photo" ? title(method) : `${title(method)}: ${kind}`;
  }

  function draw() {
    const image = index.images[current], strength = opacity.value / 100;
    const tall = picture.height / picture.width;
    stage.style.aspectRatio = `${picture.width} / ${picture.height}`;
    stage.style.setProperty("--wide", 1 / tall); // times its height
    const drawn = [left, right].map((side) => {
      const which = layer(side);
      const canvas = at(`${side.id}-canvas`);
      layers.draw(canvas, index, picture, which, strength);
      at(`${side.id}-tag`).textContent = caption(which);
      canvas.setAttribute("aria-label", `${image.id}: ${caption(which)}`);
      return which;
    });
    const facts = [before(), after()].filter((method, place, all) => image.results[method] && all.indexOf(method) === place);
    at("about").replaceChildren(
      make("b", `${image.id} `),
      make("span", `(${shown.indexOf(current) + 1} of ${shown.length}) `, { class: "soft" }),
      facts.map((method) => `${title(method)}: ${numbersOf(image, method).map(([value, name]) => `${percent(value)}% ${name}`).join(", ")}`).join("; "),
    );
    drawKey(drawn);
    drawOverview(strength);
    at("readout").textContent = "";
  }

  function numbersOf(image, method) { // in the caption: also that of the chosen class
    const { mean, accuracy } = image.results[method];
    const ofClass = chosenClass() === null ? [] : [[quality(image, method), measure()]];
    return [...ofClass, [mean, "mean IoU"], [accuracy, "accuracy"]];
  }

  function drawKey(drawn) {
    const entries = [];
    const kinds = new Set(drawn.map((each) => each.kind));
    if (kinds.has("labels")) {
      const used = new Set(drawn.filter((each) => each.kind === "labels").flatMap((each) => [...new Set(each.method === TRUTH ? picture.truth : picture.labels[each.method])]));
      for (const label of [...used].sort((a, b) => a - b)) {
        if (label !== index.void && !index.background.includes(label)) entries.push([index.colours[label], index.classes[label]]);
      }
    }
    for (const kind of kinds) entries.push(...layers.key(kind));
    const parts = entries.map(([colour, text]) => {
      const entry = make("li", ""), chip = make("span", "", { class: "chip" });
      chip.style.background = `rgb(${colour})`;
      entry.append(chip, text);
      return entry;
    });
    if (kinds.has("confidence")) {
      const entry = make("li", ""), scale = make("span", "", { class: "scale" });
      scale.style.background = layers.scale();
      entry.append("confidence 0%", scale, "100%");
      parts.push(entry);
    }
    if (picture.truth.includes(index.void)) { // in the truth and in maps of errors and changes
      const entry = make("li", "");
      entry.append(make("span", "", { class: "chip hatched" }), "no true label");
      parts.push(entry);
    }
    at("key").replaceChildren(...parts);
  }

  function drawOverview(strength) {
    const panels = [{ kind: "photo", method: PHOTO }, { kind: "labels", method: TRUTH }];
    for (const method of new Set([before(), after()])) if (has(method)) panels.push({ kind: "labels", method });
    if (before() !== after() && has(before()) && has(after())) panels.push({ kind: "changes", method: after(), before: before() });
    at("overview").replaceChildren(...panels.map((which) => {
      const figure = make("figure", ""), canvas = make("canvas", "", { role: "img", "aria-label": caption(which) });
      layers.draw(canvas, index, picture, which, strength);
      figure.append(canvas, make("figcaption", which.kind === "changes" ? "changes" : caption(which)));
      return figure;
    }));
  }

  function readout(event) {
    if (!picture) return;
    const area = stage.getBoundingClientRect();
    const x = Math.floor(((event.clientX - area.left) / area.width) * picture.width);
    const y = Math.floor(((event.clientY - area.top) / area.height) * picture.height);
    if (x < 0 || y < 0 || x >= picture.width || y >= picture.height) return;
    const i = y * picture.width + x, half = Math.ceil(picture.width / 2);
    const name = (label) => (label === index.void ? "no label" : index.classes[label]);
    const parts = [`truth: ${name(picture.truth[i])}`];
    for (const method of new Set([before(), after()])) {
      if (!has(method)) continue;
      const level = picture.confidence[method][(y >> 1) * half + (x >> 1)];
      parts.push(`${title(method)}: ${name(picture.labels[method][i])} (${Math.round((100 * level) / index.levels)}–${Math.round((100 * (level + 1)) / index.levels)}%)`);
    }
    at("readout").textContent = parts.join(" · ");
  }

  // --- controls ----------------------------------------------------------------------------------------------------
  function divide(share) {
    swipe.value = share;
    stage.style.setProperty("--at", `${share}%`);
    at("flip").setAttribute("aria-pressed", String(Number(share) === 0));
  }
  function flip() {
    divide(Number(swipe.value) === 0 ? 100 : 0);
  }

  left.append(option(PHOTO, "photo"), option(TRUTH, "truth"));
  index.methods.forEach((method, number) => {
    left.append(option(number, method.title));
    right.append(option(number, method.title));
  });
  left.value = index.before === index.after ? TRUTH : index.before;
  right.value = index.after;
  classes.append(option("", "all classes"));
  index.classes.forEach((name, label) => {
    const count = index.images.filter((image) => image.labels.includes(label)).length;
    if (count) classes.append(option(label, `${name} (${count})`));
  });
  for (const [name, [text]] of Object.entries(ORDERS)) order.append(option(name, text));
  if (index.before === index.after) order.value = "worst";

  for (const control of [order, classes]) control.addEventListener("change", () => arrange(false));
  for (const control of [left, right]) control.addEventListener("change", () => arrange(true));
  names.addEventListener("input", () => arrange(false));
  opacity.addEventListener("input", () => picture && draw());
  for (const radio of document.querySelectorAll('input[name="view"]')) radio.addEventListener("change", () => picture && draw());
  swipe.addEventListener("input", () => divide(swipe.value));
  for (const name of ["pointerdown", "pointermove"]) stage.addEventListener(name, readout);
  at("previous").addEventListener("click", () => move(-1));
  at("next").addEventListener("click", () => move(1));
  at("flip").addEventListener("click", flip);
  function inUse(target) { // keys of the document are for the viewer while its picture is in view, or it has the focus
    const area = stage.getBoundingClientRect();
    return at("images").contains(target) || (area.height > 0 && area.bottom > 0 && area.top < window.innerHeight);
  }
  document.addEventListener("keydown", (event) => {
    if (!inUse(event.target)) return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, input[type=search]")) return;
    if (event.key === "f" || event.key === "F") flip();
    if (event.target.closest("input, .plot, pre, .scrolled")) return; // their arrows
    const change = { ArrowLeft: -1, ArrowRight: 1, ...(list.contains(event.target) && { ArrowUp: -1, ArrowDown: 1 }) }[event.key];
    if (!change) return;
    event.preventDefault();
    move(change);
  });

  at("viewer").hidden = false;
  divide(50);
  arrange(false);
})();
