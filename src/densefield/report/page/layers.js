// Layers: what is drawn over a photo. A layer is {kind, method, before}; the truth is the method "truth".
const layers = (() => {
  const CERTAINTY = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const WRONG = [255, 112, 0], FIXED = [64, 170, 255], OTHER = [235, 90, 220], HATCH = [235, 235, 235], DARK = [0, 0, 0];
  const SHADE = 0.55; // of what a map of errors or changes leaves out

  function certainty(share) { // 0…1, the colours of viridis
    const place = Math.min(Math.max(share, 0), 1) * (CERTAINTY.length - 1);
    const low = Math.min(Math.floor(place), CERTAINTY.length - 2);
    return CERTAINTY[low].map((value, channel) => Math.round(value + (place - low) * (CERTAINTY[low + 1][channel] - value)));
  }

  // The levels of confidence over pixel i, interpolated from a map of half the size.
  function smoothed(levels, width, height) {
    const columns = Math.ceil(width / 2), rows = Math.ceil(height / 2);
    const place = (at, count) => { // of the two nearest entries of the map, and the share of the second
      const share = Math.min(Math.max((at - 0.5) / 2, 0), count - 1), first = Math.floor(share);
      return [first, Math.min(first + 1, count - 1), share - first];
    };
    return (i) => {
      const [left, right, x] = place(i % width, columns), [top, bottom, y] = place(Math.floor(i / width), rows);
      const row = (at) => levels[at * columns + left] * (1 - x) + levels[at * columns + right] * x;
      return row(top) * (1 - y) + row(bottom) * y;
    };
  }

  // A colour with an opacity (0…1) as a number of ImageData, whose bytes are r, g, b, a.
  const pack = ([r, g, b], share) => ((Math.round(255 * share) << 24) | (b << 16) | (g << 8) | r) >>> 0;
  const NONE = 0;

  // The packed colour over pixel i of the photo, as a function of i.
  function painter(index, picture, layer, opacity) {
    const { truth, labels, confidence, width, height } = picture;
    const found = labels[layer.method];
    const strong = Math.max(opacity, 0.85); // of maps other than labels
    const shade = pack(DARK, SHADE), hatch = pack(HATCH, 0.6);
    const hatched = (i) => ((i % width) + Math.floor(i / width)) % 8 < 2;
    if (layer.kind === "labels") {
      const shown = layer.method === "truth" ? truth : found;
      const colours = index.colours.map((colour, label) => (index.background.includes(label) ? NONE : pack(colour, opacity)));
      return (i) => (shown[i] === index.void ? (hatched(i) ? hatch : NONE) : colours[shown[i]]);
    }
    if (layer.kind === "confidence") {
      const level = smoothed(confidence[layer.method], width, height);
      return (i) => pack(certainty((level(i) + 0.5) / index.levels), strong);
    }
    const [wrong, fixed, other] = [WRONG, FIXED, OTHER].map((colour) => pack(colour, strong));
    const outside = (i) => (truth[i] === index.void && hatched(i) ? hatch : shade);
    if (layer.kind === "errors") {
      return (i) => (truth[i] === index.void || found[i] === truth[i] ? outside(i) : wrong);
    }
    if (layer.kind === "changes") {
      const before = labels[layer.before];
      return (i) => {
        if (truth[i] === index.void || before[i] === found[i]) return outside(i);
        return found[i] === truth[i] ? fixed : before[i] === truth[i] ? wrong : other;
      };
    }
    return () => NONE; // the photo
  }

  function draw(canvas, index, picture, layer, opacity) {
    const { width, height } = picture;
    canvas.width = width;
    canvas.height = height;
    canvas.classList.toggle("pixels", Math.max(width, height) < 200);
    const context = canvas.getContext("2d");
    context.drawImage(picture.photo, 0, 0, width, height);
    const paint = painter(index, picture, layer, opacity);
    const over = new ImageData(width, height), colours = new Uint32Array(over.data.buffer);
    for (let i = 0; i < width * height; i += 1) colours[i] = paint(i);
    const sheet = document.createElement("canvas");
    sheet.width = width;
    sheet.height = height;
    sheet.getContext("2d").putImageData(over, 0, 0);
    context.drawImage(sheet, 0, 0);
  }

  // What the colours of a layer mean: [colour, text], or a scale.
  function key(kind) {
    if (kind === "errors") return [[WRONG, "wrong label"]];
    if (kind === "changes") return [[FIXED, "corrected"], [WRONG, "made wrong"], [OTHER, "wrong before and after"]];
    return [];
  }

  return { draw, key, scale: () => `linear-gradient(to right, ${CERTAINTY.map((c) => `rgb(${c})`).join(", ")})` };
})();
