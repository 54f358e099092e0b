"use strict";
// The operations of one key over time: a lane for each process, leaders and faults behind them.
const keyTimeline = (function () {
  const ROWS = 40;
  const WIDTH = 1000, LEFT = 90, LEADER = 24, LANE = 30, BAR = 22, LETTER = 7;
  const SVG = "http://www.w3.org/2000/svg";
  const choice = document.getElementById("key");
  const picture = document.getElementById("key-picture");
  const words = document.getElementById("key-words");
  const shown = document.getElementById("key-shown");
  const detail = document.getElementById("key-detail");
  const focus = chart.focus;
  const suspects = new Set(focus.operations);
  let known = null;
  let rows = [];
  let first = 0;

  function make(parent, name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) {
      made.setAttribute(key, value);
    }
    if (text !== undefined) {
      made.textContent = text;
    }
    parent.append(made);
    return made;
  }

  const begin = (row) => known.from[row] * known.unit;
  // What ended in info may take effect at any time later, as what never completed.
  const open = (row) => known.took[row] === 0 || known.type[row] === 2;
  const end = (row) => (open(row) ? Infinity : begin(row) + (known.took[row] - 1) * known.unit);

  function said(row) {
    const [index, process, what, asked, answer, type, from, took, node, error] = operations.cells(known, row);
    return from + ": process " + process + " asked " + (node || "a node") + " to " + what + (asked ? " = " + asked : "")
      + "; " + type + (answer ? " with " + answer : "") + (error ? " (" + error + ")" : "") + " after " + took
      + "; operation " + index + (suspects.has(known.index[row]) ? ", of the violation" : "");
  }

  function label(row) {
    const [, , , asked, answer] = operations.cells(known, row);
    const name = known.functions[known.f[row]];
    return asked ? name + " " + asked : name + " → " + (answer || operations.kinds[known.type[row]]);
  }

  // Never silently: "epoch 1" of 14 would be another epoch.
  const cut = (text, room) => (room < 4 ? "" : text.length > room ? text.slice(0, room - 1) + "…" : text);

  function draw() {
    const view = rows.slice(first, first + ROWS);
    picture.replaceChildren();
    words.replaceChildren();
    if (!view.length) {
      return;
    }
    const from = begin(view[0]);
    const last = Math.max(...view.map((row) => (open(row) ? begin(row) : end(row))), from + 1e-6);
    const x = (time) => LEFT + ((time - from) / (last - from)) * (WIDTH - LEFT - 40);
    const lanes = [...new Set(view.map((row) => known.process[row]))].sort((one, other) => one - other);
    const behind = chart.bars.filter((bar) => bar.to >= from && bar.from <= last);
    const leads = (bar) => bar.colour === "--leader" || bar.colour === "--overlap";
    const leaders = [...new Set(behind.filter(leads).map((bar) => bar.lane))];
    const faultsTop = leaders.length * LEADER;
    const TOP = faultsTop + 28;
    const height = TOP + lanes.length * LANE + 26;
    picture.setAttribute("viewBox", "0 0 " + WIDTH + " " + height);
    leaders.forEach((lane, at) => {
      make(picture, "text", { x: 4, y: at * LEADER + 14, class: "process" }, lane.slice(0, 6) + " leads");
    });
    for (const bar of behind) {
      const at = Math.max(LEFT, x(bar.from));
      const isLeader = leads(bar);
      const top = isLeader ? leaders.indexOf(bar.lane) * LEADER : faultsTop;
      const overlap = bar.colour === "--overlap";
      const band = make(picture, "rect", {
        x: at, y: overlap ? top + 16 : top, width: Math.max(2, Math.min(WIDTH, x(bar.to)) - at),
        height: overlap ? 4 : isLeader ? 20 : TOP - faultsTop + lanes.length * LANE,
        class: overlap ? "bar overlap" : isLeader ? "bar leader" : "band",
      });
      band.style.fill = "var(" + bar.colour + ")";
      make(band, "title", {}, bar.title);
      const room = overlap ? 0 : Math.floor((Math.min(WIDTH, x(bar.to)) - at - 8) / LETTER);
      make(picture, "text", { x: at + 4, y: top + 14, class: "label" }, cut(isLeader ? bar.text : bar.title, room));
      const line = document.createElement("li");
      line.textContent = bar.from.toFixed(4) + " s to " + bar.to.toFixed(4) + " s: " + bar.title;
      words.append(line);
    }
    lanes.forEach((process, at) => {
      make(picture, "text", { x: 4, y: TOP + at * LANE + 18, class: "process" }, known.processes[process].slice(0, 12));
      make(picture, "line", { x1: 0, x2: WIDTH, y1: TOP + (at + 1) * LANE - 2, y2: TOP + (at + 1) * LANE - 2, class: "row" });
    });
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const time = from + share * (last - from);
      make(picture, "text", { x: x(time), y: height - 6, class: "tick-label" }, time.toFixed(last - from < 1 ? 4 : 2) + " s");
    }
    const next = new Map();
    for (const row of view.toReversed()) {
      const top = TOP + lanes.indexOf(known.process[row]) * LANE + 2;
      const at = x(begin(row));
      const long = Math.max(3, Math.min(WIDTH - 4, x(end(row))) - at);
      const room = Math.floor(((next.get(known.process[row]) ?? WIDTH) - at - 8) / LETTER);
      next.set(known.process[row], at);
      const group = make(picture, "g", { tabindex: "-1", role: "img", "aria-label": said(row) });
      make(group, "title", {}, said(row));
      make(group, "rect", {
        x: at, y: top, width: long, height: BAR, rx: 3,
        class: "bar " + operations.kinds[known.type[row]] + (open(row) ? " open" : "")
          + (suspects.has(known.index[row]) ? " suspect" : ""),
      });
      make(group, "text", { x: at + 5, y: top + 15, class: "label" }, cut(label(row), room));
      group.addEventListener("focus", () => { detail.textContent = said(row); });
      group.addEventListener("click", () => group.focus());
    }
    for (const row of view) {
      const line = document.createElement("li");
      line.textContent = said(row);
      words.append(line);
    }
    const groups = Array.from(picture.querySelectorAll("g")).reverse();
    groups[0].setAttribute("tabindex", "0");
    picture.onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const wanted = groups[groups.indexOf(document.activeElement) + step];
      if (step && wanted) {
        event.preventDefault();
        groups.forEach((group) => group.setAttribute("tabindex", group === wanted ? "0" : "-1"));
        wanted.focus();
      }
    };
    shown.textContent = "Operations " + (first + 1) + " to " + (first + view.length) + " of " + rows.length
      + " of this key, " + from.toFixed(4) + " s to " + last.toFixed(4) + " s.";
    detail.textContent = "";
  }

  function move(by) {
    first = Math.max(0, Math.min(rows.length - Math.min(ROWS, rows.length), first + by));
    draw();
  }

  // Begin with the violation of the key, or with what happened, or with the run.
  function choose() {
    rows = [];
    for (let row = 0; row < known.count; row += 1) {
      if (known.key[row] === Number(choice.value)) {
        rows.push(row);
      }
    }
    const guilty = rows.findLastIndex((row) => suspects.has(known.index[row]));
    const later = rows.findIndex((row) => begin(row) >= focus.at_s);
    first = 0;
    move((guilty >= 0 ? guilty + 5 : Math.max(0, later) + ROWS / 2) - ROWS);
  }

  function take(loaded) {
    known = loaded;
    const used = new Set(known.key); // not those of faults and phases alone
    const names = known.keys.map((name, code) => [name, code]).filter(([, code]) => used.has(code));
    const rank = ([name]) => (focus.keys.includes(name) ? focus.keys.indexOf(name) : focus.keys.length);
    names.sort((one, other) => rank(one) - rank(other) || one[0].localeCompare(other[0], "en", { numeric: true }));
    for (const [name, code] of names) {
      const option = document.createElement("option");
      option.value = code;
      option.textContent = (name || "(no key)") + (focus.keys.includes(name) ? ", violated" : "");
      choice.append(option);
    }
    choice.addEventListener("change", choose);
    for (const button of document.querySelectorAll("#one-key button")) {
      button.addEventListener("click", () => move(Number(button.dataset.by)));
    }
    choose();
  }

  return { take };
})();
