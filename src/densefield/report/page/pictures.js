// Pictures: photo, labels and confidence of an image, decoded when they are first shown.
const pictures = (() => {
  const sources = document.querySelectorAll("script.picture");
  const decoded = new Map(); // the last few, by number
  const KEPT = 12;

  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

  async function inflate(text) {
    const stream = new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  async function inflateAll(texts) {
    const pairs = Object.entries(texts).map(async ([method, text]) => [method, await inflate(text)]);
    return Object.fromEntries(await Promise.all(pairs));
  }

  const photoOf = (stored) => `data:image/jpeg;base64,${stored.photo}`;

  async function decode(number) {
    const stored = JSON.parse(sources[number].textContent);
    const photo = new Image();
    photo.src = photoOf(stored);
    const [truth, labels, confidence] = await Promise.all([
      inflate(stored.truth), inflateAll(stored.labels), inflateAll(stored.confidence), photo.decode(),
    ]);
    return { width: stored.width, height: stored.height, photo, truth, labels, confidence };
  }

  return {
    thumbnail: (number) => photoOf(JSON.parse(sources[number].textContent)),
    get(number) {
      const known = decoded.get(number) ?? decode(number);
      decoded.delete(number);
      decoded.set(number, known);
      if (decoded.size > KEPT) decoded.delete(decoded.keys().next().value);
      return known;
    },
  };
})();
