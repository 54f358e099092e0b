"use strict";
// Shows another order in a part's drawing and table. All texts are set as text, never as HTML.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const parts = JSON.parse(document.getElementById("data").textContent);
  const element = (name, attributes, space) => {
    const made = space ? document.createElementNS(space, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const row = (cells, kind) => {
    const made = element("tr", kind ? { class: kind } : {});
    for (const text of cells) {
      const cell = element("td", {});
      cell.textContent = text;
      made.append(cell);
    }
    return made;
  };

  for (const section of document.querySelectorAll("section.part")) {
    const { orders, largest } = parts[Number(section.dataset.part)];
    if (!orders.length) continue;
    const bars = new Map();
    for (const bar of section.querySelectorAll(".operation")) bars.set(Number(bar.dataset.operation), bar);
    const line = section.querySelector(".line");
    const body = section.querySelector("tbody");
    const textOf = (position) => bars.get(position).querySelector("text").textContent;
    let kept = null;
    let shown = -1;

    const show = (number) => {
      if (number === shown) return;
      shown = number;
      const { positions, points, states, refused } = orders[number];
      const places = positions.map((position, i) => [points[i], bars.get(position).dataset.y]);
      line.replaceChildren(
        element("polyline", { points: places.map((place) => place.join(",")).join(" ") }, SVG),
        ...places.map(([x, y]) => element("circle", { cx: x, cy: y, r: 3.5 }, SVG)),
      );
      body.replaceChildren(
        row([0, "", states[0]]),
        ...positions.map((position, i) => row([i + 1, textOf(position), states[i + 1]])),
        ...refused.map((position) => row(["", textOf(position), "refused here"], "refused")),
      );
      const within = new Set(positions);
      const without = new Set(refused);
      for (const [position, bar] of bars) {
        bar.classList.toggle("out", !within.has(position) && !without.has(position));
        bar.classList.toggle("refused", without.has(position));
      }
    };
    const rest = () => show(kept === null ? 0 : largest[kept] ?? 0);
    const keep = (position) => {
      if (kept !== null) bars.get(kept).classList.remove("kept");
      kept = position;
      if (kept !== null) bars.get(kept).classList.add("kept");
      rest();
    };
    for (const [position, bar] of bars) {
      const look = () => show(largest[position] ?? 0);
      bar.addEventListener("pointerenter", look);
      bar.addEventListener("focus", look);
      bar.addEventListener("pointerleave", rest);
      bar.addEventListener("blur", rest);
      bar.addEventListener("click", (event) => {
        event.stopPropagation();
        keep(position);
      });
      bar.addEventListener("keydown", (event) => {
        if (event.key === "Enter") keep(position);
      });
    }
    section.querySelector("svg").addEventListener("click", () => keep(null));
    show(0);
  }
})();
