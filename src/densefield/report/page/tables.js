"use strict";
// Tables: sorted by the buttons of their header, and shown as cards where they are wider than the page, unless they scroll.
(() => {
  const value = (row, column) => {
    const cell = row.cells[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : null;
  };

  function sort(table, header, column) {
    const ascending = header.querySelector("button").classList.contains("ascending") || column === 0;
    const before = header.getAttribute("aria-sort");
    const rising = before ? before === "descending" : ascending;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows].filter((row) => !row.classList.contains("last"));
    rows.sort((a, b) => {
      if (column === 0) return a.cells[0].textContent.localeCompare(b.cells[0].textContent, undefined, { numeric: true }) * (rising ? 1 : -1);
      const [x, y] = [value(a, column), value(b, column)];
      if (x === null || y === null) return (x === null) - (y === null); // blank cells last
      return rising ? x - y : y - x;
    });
    for (const row of rows) body.insertBefore(row, body.querySelector("tr.last"));
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      header.querySelector("button").addEventListener("click", () => sort(table, header, column));
    });
  }

  function fit(box) {
    const table = box.firstElementChild;
    if (box.classList.contains("scrolled")) return;
    table.classList.remove("cards");
    if (box.clientWidth > 0 && table.scrollWidth > box.clientWidth) table.classList.add("cards");
  }
  const widths = new Map();
  const observer = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (widths.get(target) === target.clientWidth) continue; // only its height changed
      widths.set(target, target.clientWidth);
      fit(target);
    }
  });
  for (const box of document.querySelectorAll(".table")) observer.observe(box);
})();
