// Charts: the values of all curves at the pointer, or at the place that the arrow keys choose.
(() => {
  for (const chart of document.querySelectorAll(".chart")) {
    const plot = chart.querySelector(".plot");
    const lines = JSON.parse(chart.querySelector("script").textContent); // of each: [left %, bottom %, x, y]
    const entries = [...chart.querySelectorAll(".legend li")];
    const stops = [...new Set(lines.flat().map((point) => point[0]))].sort((a, b) => a - b);
    if (!stops.length) continue;
    const cursor = document.createElement("span");
    const box = document.createElement("div");
    cursor.className = "cursor";
    box.className = "values-at";
    box.setAttribute("role", "status");
    cursor.hidden = box.hidden = true;
    plot.append(cursor, box);
    let stop = stops.length - 1;

    const nearest = (points, left) => points.reduce((a, b) => (Math.abs(b[0] - left) < Math.abs(a[0] - left) ? b : a));

    function show(left) {
      cursor.style.left = `${left}%`;
      cursor.hidden = box.hidden = false;
      const found = lines.map((points) => (points.length ? nearest(points, left) : null));
      const steps = found.filter(Boolean).map((point) => point[2]);
      const head = document.createElement("div");
      head.textContent = `${chart.querySelector(".x-label").textContent} ${[...new Set(steps)].length > 1 ? "≈ " : ""}${nearest(found.filter(Boolean), left)[2]}`;
      const rows = found.map((point, number) => [point, number]).filter(([point]) => point);
      rows.sort((a, b) => b[0][1] - a[0][1]); // from top to bottom, as the curves
      box.replaceChildren(head, ...rows.map(([point, number]) => {
        const row = document.createElement("div");
        const value = document.createElement("b");
        value.textContent = point[3];
        row.append(entries[number].querySelector("svg").cloneNode(true), entries[number].textContent, value);
        return row;
      }));
      box.style.left = left < 50 ? `calc(${left}% + 10px)` : "auto";
      box.style.right = left < 50 ? "auto" : `calc(${100 - left}% + 10px)`;
    }
    function hide() {
      cursor.hidden = box.hidden = true;
    }

    for (const name of ["pointerdown", "pointermove"]) { // a finger does not move before it touches
      plot.addEventListener(name, (event) => {
        const area = plot.getBoundingClientRect();
        const left = (100 * (event.clientX - area.left)) / area.width;
        stop = stops.indexOf(stops.reduce((a, b) => (Math.abs(b - left) < Math.abs(a - left) ? b : a)));
        show(stops[stop]);
      });
    }
    plot.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hide()); // values stay after a tap
    plot.addEventListener("blur", hide);
    plot.addEventListener("keydown", (event) => {
      const change = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") hide();
      if (!change) return;
      event.preventDefault();
      stop = box.hidden ? stop : Math.min(Math.max(stop + change, 0), stops.length - 1);
      show(stops[stop]);
    });

    const curves = entries.map((entry, number) => [...plot.querySelectorAll("path.curve")][number]);
    entries.forEach((entry, number) => {
      const dim = (on) => {
        entries.forEach((other, place) => {
          other.classList.toggle("dim", on && place !== number);
          curves[place]?.classList.toggle("dim", on && place !== number);
        });
      };
      entry.addEventListener("pointerenter", () => dim(true));
      entry.addEventListener("pointerleave", () => dim(false));
    });
  }
})();
