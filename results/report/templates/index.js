"use strict";
(function () {
  const search = document.getElementById("search");
  const found = document.getElementById("found");
  const compare = document.getElementById("compare");
  const difference = document.getElementById("difference");
  const table = document.getElementById("runs");
  const rows = Array.from(table.tBodies[0].rows).filter((row) => row.querySelector("input"));

  function find() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    found.textContent = words.length ? shown + " of " + rows.length : "";
  }

  const ticked = () => rows.filter((row) => row.querySelector("input").checked);

  function line(section, tag, texts) {
    const made = section.insertRow();
    for (const text of texts) {
      const cell = document.createElement(tag);
      cell.textContent = text;
      made.append(cell);
    }
  }

  function show() {
    const [left, right] = ticked();
    const names = Array.from(table.tHead.rows[0].cells, (cell) => cell.textContent);
    const values = [left, right].map((row) => Array.from(row.cells, (cell) => cell.textContent.trim()));
    difference.tHead.replaceChildren();
    difference.tBodies[0].replaceChildren();
    line(difference.tHead, "th", ["differs", values[0][2], values[1][2]]);
    names.forEach((name, at) => {
      if (at !== 0 && at !== 2 && values[0][at] !== values[1][at]) {
        line(difference.tBodies[0], "td", [name, values[0][at], values[1][at]]);
      }
    });
    difference.hidden = false;
    difference.scrollIntoView({ block: "nearest" });
  }

  search.addEventListener("input", find);
  table.addEventListener("change", () => { compare.disabled = ticked().length !== 2; });
  compare.addEventListener("click", show);
})();
