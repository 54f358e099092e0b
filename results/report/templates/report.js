"use strict";
// The search of operations: each row is matched as the text that a reader sees of it.
(function () {
  const SHOWN_MOST = 200;
  const AT_ONCE = 20000;
  const search = document.getElementById("search");
  const inChart = document.getElementById("in-chart");
  const found = document.getElementById("found");
  const matches = document.getElementById("matches");
  let known = null;
  let turn = 0;

  const pause = () => new Promise((resume) => { setTimeout(resume); });

  // Rows to look at: all, or those that were open at some time of the chart's window.
  function chosen() {
    if (!inChart.checked) {
      return [0, known.count, () => true];
    }
    const [begin, end] = chart.range();
    const open = (row) => known.took[row] === 0
      || (known.from[row] + known.took[row] - 1) * known.unit >= begin;
    return [0, operations.rowAt(known, end), open];
  }

  async function find() {
    turn += 1;
    const mine = turn;
    // A number is whole: "process 7" is not process 71.
    const phrases = (search.value.toLowerCase().match(/(?:process|operation) \d+|\S+/g) || [])
      .map((phrase) => (/ \d+$/.test(phrase) ? phrase + " " : phrase));
    const hits = [];
    let count = 0;
    const asked = phrases.length > 0 || inChart.checked;
    if (asked) {
      const [first, last, open] = chosen();
      for (let row = first; row < last; row += 1) {
        if (row % AT_ONCE === AT_ONCE - 1) {
          found.textContent = "searching…";
          await pause();
          if (mine !== turn) {
            return;
          }
        }
        if (!open(row)) {
          continue;
        }
        const cells = operations.cells(known, row);
        const text = ("operation " + cells[0] + " process " + cells.slice(1).join(" ") + " ").toLowerCase();
        if (phrases.every((phrase) => text.includes(phrase))) {
          count += 1;
          if (hits.length < SHOWN_MOST) {
            hits.push(cells);
          }
        }
      }
    }
    matches.hidden = count === 0;
    found.textContent = !asked ? "" : count + " of " + known.count + " operations"
      + (count > SHOWN_MOST ? ", the first " + SHOWN_MOST + " shown" : "");
    matches.tBodies[0].replaceChildren(...hits.map((cells) => {
      const line = document.createElement("tr");
      for (const cell of cells) {
        line.insertCell().textContent = cell;
      }
      return line;
    }));
  }

  operations.load().then((loaded) => {
    known = loaded;
    chart.take(loaded);
    keyTimeline.take(loaded);
    search.addEventListener("input", find);
    inChart.addEventListener("change", find);
    chart.listen(find);
    find();
  }, () => {
    document.getElementById("unread").hidden = false;
  });
})();
