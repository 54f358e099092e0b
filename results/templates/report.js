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

  draw();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
