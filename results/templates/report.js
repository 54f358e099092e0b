"use strict";
(function () {
  const element = document.getElementById("chart");
  const source = document.getElementById("chart-data").textContent;

  // Plotly knows no CSS variables: put in their values in the scheme of the moment.
  const variable = /^var\((--[a-z0-9-]+)\)$/;
  function coloured(value, style) {
    if (typeof value === "string") {
      const found = variable.exec(value);
      return found ? style.getPropertyValue(found[1]).trim() : value;
    }
    if (Array.isArray(value)) {
      return value.map((entry) => coloured(entry, style));
    }
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, coloured(v, style)]));
    }
    return value;
  }

  function draw() {
    const figure = coloured(JSON.parse(source), getComputedStyle(document.documentElement));
    Plotly.react(element, figure.data, figure.layout, {
      responsive: true, displaylogo: false,
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    });
  }

  const whole = document.getElementById("whole");
  function zoom(from, to) {
    const margin = Math.max(0.5, (to - from) / 10);
    Plotly.relayout(element, { "xaxis.range": [from - margin, to + margin] });
    whole.hidden = false;
  }
  for (const link of document.querySelectorAll("a.zoom")) {
    link.addEventListener("click", () => zoom(Number(link.dataset.from), Number(link.dataset.to)));
  }
  whole.addEventListener("click", () => {
    draw();
    whole.hidden = true;
  });

  // Operations: each row is matched as the text that a reader sees of it.
  const shownMost = 200;
  const search = document.getElementById("search");
  const inChart = document.getElementById("in-chart");
  const found = document.getElementById("found");
  const matches = document.getElementById("matches");
  const seconds = (ns) => (ns / 1e9).toFixed(6) + " s";
  const operations = JSON.parse(document.getElementById("operation-data").textContent).map((row) => {
    const [index, process, f, key, asked, answer, type, from, to, node, error] = row;
    const took = to === null ? "never completed" : ((to - from) / 1e6).toFixed(3) + " ms";
    const cells = [index, process, (f + " " + key).trim(), asked, answer, type, seconds(from), took, node, error];
    const text = ("operation " + index + " process " + process + " " + cells.slice(2).join(" ")).toLowerCase();
    return { cells, text, from: from / 1e9, to: to === null ? Infinity : to / 1e9 };
  });

  function find() {
    // A number is whole: "process 7" is not process 71.
    const phrases = (search.value.toLowerCase().match(/(?:process|operation) \d+|\S+/g) || [])
      .map((phrase) => (/ \d+$/.test(phrase) ? phrase + " " : phrase));
    const range = element.layout.xaxis3.range;
    const hits = operations.filter((operation) =>
      phrases.every((phrase) => (operation.text + " ").includes(phrase))
      && (!inChart.checked || (operation.from <= range[1] && operation.to >= range[0])));
    const asked = phrases.length > 0 || inChart.checked;
    matches.hidden = !asked || hits.length === 0;
    found.textContent = !asked ? "" : hits.length + " of " + operations.length + " operations"
      + (hits.length > shownMost ? ", the first " + shownMost + " shown" : "");
    matches.tBodies[0].replaceChildren(...(asked ? hits.slice(0, shownMost) : []).map((operation) => {
      const line = document.createElement("tr");
      for (const cell of operation.cells) {
        line.insertCell().textContent = cell;
      }
      return line;
    }));
  }

  draw();
  search.addEventListener("input", find);
  inChart.addEventListener("change", find);
  element.on("plotly_relayout", find);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
