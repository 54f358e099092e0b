"use strict";
// The chart over time: leaders and faults, latency of each operation, completions a second.
const chart = (function () {
  const element = document.getElementById("chart");
  const whole = JSON.parse(document.getElementById("chart-data").textContent);
  const canvas = element.querySelector("canvas");
  const tip = element.querySelector(".tip");
  const status = document.getElementById("window");
  const LEFT = 84, RIGHT = 12, LANE = 26, LATENCY = 260, RATE = 150, GAP = 22, AXIS = 40;
  const lanesHeight = LANE * Math.max(1, whole.lanes.length);
  const height = lanesHeight + GAP + LATENCY + GAP + RATE + AXIS;
  const tops = { latency: lanesHeight + GAP, rate: lanesHeight + GAP + LATENCY + GAP };
  const BUCKETS = 120;
  const DOTS_MAX = 20000;
  const colourOf = { ok: "--ok", fail: "--fail", info: "--info" };
  const hidden = new Set();
  const listeners = [];
  let known = null;
  let lines = whole;
  let begin = 0;
  let end = whole.duration_s;
  let decades = [-1, 3];
  let dragged = null;

  const width = () => Math.max(160, element.clientWidth);
  const x = (time) => LEFT + ((time - begin) / (end - begin)) * (width() - LEFT - RIGHT);
  const time = (at) => begin + ((at - LEFT) / (width() - LEFT - RIGHT)) * (end - begin);
  const y = (ms) => tops.latency + LATENCY
    - ((Math.log10(Math.max(ms, 1e-3)) - decades[0]) / (decades[1] - decades[0])) * LATENCY;
  // Of what took less than the unit of time only that is known.
  const tookMs = (row) => Math.max(0.5, known.took[row] - 1) * known.unit * 1000;
  const inWhole = () => begin <= 0 && end >= whole.duration_s;

  // -- what is drawn of a window ------------------------------------------------------------------

  // Of a window that the page has every operation of, percentiles and rates are computed anew.
  function figures() {
    if (inWhole() || known === null || known.count < known.of) {
      return whole;
    }
    const bucket = (end - begin) / BUCKETS;
    const took = Array.from({ length: BUCKETS }, () => []);
    const rates = { ok: [], fail: [], info: [] };
    for (const kind of operations.kinds) {
      rates[kind] = new Array(BUCKETS).fill(0);
    }
    for (let row = 0; row < known.count; row += 1) {
      const from = known.from[row] * known.unit;
      if (from > end) {
        break;
      }
      if (known.took[row] === 0) {
        continue;
      }
      const done = Math.floor((from + (known.took[row] - 1) * known.unit - begin) / bucket);
      if (done >= 0 && done < BUCKETS) {
        rates[operations.kinds[known.type[row]]][done] += 1 / bucket;
      }
      if (known.type[row] === 0 && from >= begin) {
        took[Math.min(BUCKETS - 1, Math.floor((from - begin) / bucket))].push(tookMs(row));
      }
    }
    const percentile = (share) => took.map((values) => {
      values.sort((one, other) => one - other);
      return values.length ? values[Math.floor((values.length - 1) * share)] : null;
    });
    return { bucket_s: bucket, p50_ms: percentile(0.5), p99_ms: percentile(0.99), rates, from: begin };
  }

  // A power of ten, two or five of them, so that at most so many stand in a range.
  function step(range, most) {
    const power = 10 ** Math.floor(Math.log10(range / most));
    return [1, 2, 5, 10].map((times) => times * power).find((size) => range / size <= most);
  }

  function draw() {
    const scale = window.devicePixelRatio || 1;
    canvas.width = width() * scale;
    canvas.height = height * scale;
    canvas.style.height = height + "px";
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    axes(pen, colour);
    bands(pen, colour);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, width() - LEFT - RIGHT, height - AXIS);
    pen.clip();
    bars(pen, colour);
    if (known !== null) {
      dots(pen, colour);
    }
    curves(pen, colour);
    pen.restore();
    if (dragged !== null) {
      pen.fillStyle = colour("--text");
      pen.globalAlpha = 0.12;
      pen.fillRect(Math.min(dragged.from, dragged.to), 0, Math.abs(dragged.to - dragged.from), height - AXIS);
      pen.globalAlpha = 1;
    }
  }

  function axes(pen, colour) {
    const right = width() - RIGHT;
    const line = (fromX, fromY, toX, toY) => {
      pen.beginPath();
      pen.moveTo(fromX, fromY);
      pen.lineTo(toX, toY);
      pen.stroke();
    };
    pen.strokeStyle = colour("--line");
    pen.fillStyle = colour("--quiet");
    pen.lineWidth = 1;
    const size = step(end - begin, Math.max(2, Math.floor((right - LEFT) / 90)));
    const places = Math.max(0, Math.ceil(-Math.log10(size)));
    pen.textAlign = "center";
    for (let at = Math.ceil(begin / size) * size; at <= end; at += size) {
      line(x(at), 0, x(at), height - AXIS);
      pen.fillText(at.toFixed(places), x(at), height - AXIS + 14);
    }
    pen.fillText("seconds since the run began", (LEFT + right) / 2, height - 8);
    pen.textAlign = "right";
    whole.lanes.forEach((lane, row) => {
      pen.fillText(lane.length > 12 ? lane.slice(0, 11) + "…" : lane, LEFT - 8, (row + 0.5) * LANE);
      line(LEFT, (row + 1) * LANE, right, (row + 1) * LANE);
    });
    for (let power = decades[0]; power <= decades[1]; power += 1) {
      line(LEFT, y(10 ** power), right, y(10 ** power));
      pen.fillText(10 ** power + " ms", LEFT - 8, y(10 ** power));
    }
    const most = highest();
    const rateStep = step(most, 4);
    for (let rate = 0; rate <= most; rate += rateStep) {
      const at = tops.rate + RATE * (1 - rate / most);
      line(LEFT, at, right, at);
      pen.fillText(Number(rate.toPrecision(6)) + "/s", LEFT - 8, at);
    }
  }

  const highest = () => Math.max(1e-3, ...Object.entries(lines.rates)
    .filter(([kind]) => !hidden.has(kind)).flatMap(([, values]) => values));

  // Where many faults lie over each other at most times, each is fainter, or nothing else is seen.
  function bands(pen, colour) {
    const lasting = whole.bars.filter((bar) => bar.band && bar.to >= begin && bar.from <= end);
    const covered = lasting.reduce((sum, bar) => sum + Math.min(end, bar.to) - Math.max(begin, bar.from), 0);
    pen.globalAlpha = 0.13 / Math.max(1, covered / (end - begin) / 2);
    for (const bar of lasting) {
      const from = Math.max(LEFT, x(bar.from));
      pen.fillStyle = colour(bar.colour);
      pen.fillRect(from, tops.latency, Math.min(width() - RIGHT, x(bar.to)) - from, LATENCY);
      pen.fillRect(from, tops.rate, Math.min(width() - RIGHT, x(bar.to)) - from, RATE);
    }
    pen.globalAlpha = 1;
  }

  function bars(pen, colour) {
    pen.textAlign = "left";
    for (const bar of whole.bars) {
      if (bar.to < begin || bar.from > end) {
        continue;
      }
      const top = whole.lanes.indexOf(bar.lane) * LANE + 3;
      const from = Math.max(LEFT, x(bar.from));
      const long = Math.max(2, Math.min(width() - RIGHT, x(bar.to)) - from);
      pen.fillStyle = colour(bar.colour);
      if (bar.colour === "--overlap") {
        pen.fillRect(from, top + LANE - 10, long, 4);
        continue;
      }
      pen.fillRect(from, top, long, LANE - 6);
      if (pen.measureText(bar.text).width + 8 <= long) {
        pen.fillStyle = colour("--on-bar");
        pen.fillText(bar.text, from + 4, top + (LANE - 6) / 2);
      }
    }
  }

  // Each dot of a picture is painted once, however many operations of a kind lie on it.
  function dots(pen, colour) {
    const first = operations.rowAt(known, begin);
    const last = operations.rowAt(known, end);
    const size = last - first > DOTS_MAX ? 2 : 4;
    const columns = Math.ceil(width());
    pen.globalAlpha = 0.55;
    operations.kinds.forEach((kind, code) => {
      if (hidden.has(kind)) {
        return;
      }
      const painted = new Uint8Array(columns * (LATENCY + 1));
      pen.fillStyle = colour(colourOf[kind]);
      for (let row = first; row < last; row += 1) {
        if (known.type[row] !== code || known.took[row] === 0) {
          continue;
        }
        const atX = x(known.from[row] * known.unit);
        const atY = y(tookMs(row));
        const place = Math.floor(atX) * (LATENCY + 1) + Math.max(0, Math.floor(atY) - tops.latency);
        if (!painted[place]) {
          painted[place] = 1;
          pen.fillRect(atX - size / 2, atY - size / 2, size, size);
        }
      }
    });
    pen.globalAlpha = 1;
  }

  function curves(pen, colour) {
    const offset = lines.from || 0;
    const path = (values, height_of) => {
      pen.beginPath();
      let open = false;
      values.forEach((value, at) => {
        if (value === null) {
          open = false;
          return;
        }
        const place = [x(offset + (at + 0.5) * lines.bucket_s), height_of(value)];
        open ? pen.lineTo(...place) : pen.moveTo(...place);
        open = true;
      });
      pen.stroke();
    };
    pen.lineWidth = 1.5;
    pen.strokeStyle = colour("--text");
    if (!hidden.has("p50")) {
      path(lines.p50_ms, y);
    }
    pen.setLineDash([3, 3]);
    if (!hidden.has("p99")) {
      path(lines.p99_ms, y);
    }
    pen.setLineDash([]);
    const most = highest();
    for (const [kind, values] of Object.entries(lines.rates)) {
      if (!hidden.has(kind)) {
        pen.strokeStyle = colour(colourOf[kind]);
        path(values, (rate) => tops.rate + RATE * (1 - rate / most));
      }
    }
  }

  // -- which window -------------------------------------------------------------------------------

  function show(from, to) {
    const least = Math.min(whole.duration_s, 1e-5);
    const span = Math.min(whole.duration_s, Math.max(least, to - from));
    begin = Math.min(Math.max(0, from), whole.duration_s - span);
    end = begin + span;
    lines = figures();
    tip.hidden = true;
    draw();
    const places = Math.min(6, Math.max(1, Math.ceil(2 - Math.log10(span))));
    element.dataset.from = begin;
    element.dataset.to = end;
    status.textContent = inWhole() ? "The whole run is shown."
      : begin.toFixed(places) + " s to " + end.toFixed(places) + " s"
        + (known === null ? "" : ": " + (operations.rowAt(known, end) - operations.rowAt(known, begin)).toLocaleString("en") + " operations began")
        + (lines === whole ? "; lines are those of the whole run." : ".");
    for (const listener of listeners) {
      listener();
    }
  }

  const moves = {
    in: () => show(begin + (end - begin) / 4, end - (end - begin) / 4),
    out: () => show(begin - (end - begin) / 2, end + (end - begin) / 2),
    earlier: () => show(begin - (end - begin) / 2, end - (end - begin) / 2),
    later: () => show(begin + (end - begin) / 2, end + (end - begin) / 2),
    whole: () => show(0, whole.duration_s),
  };
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "earlier", ArrowRight: "later", 0: "whole", Home: "whole" };

  // -- what stands under the pointer --------------------------------------------------------------

  function under(atX, atY) {
    const lane = whole.lanes[Math.floor(atY / LANE)];
    if (atY < lanesHeight) {
      const bar = whole.bars.findLast((each) => each.lane === lane
        && atX >= x(each.from) - 2 && atX <= Math.max(x(each.to), x(each.from) + 3));
      return bar && bar.title + "\n" + bar.from.toFixed(2) + " s to " + bar.to.toFixed(2) + " s";
    }
    if (atY >= tops.rate) {
      const at = Math.floor((time(atX) - (lines.from || 0)) / lines.bucket_s);
      const rates = Object.entries(lines.rates).filter(([, values]) => values[at] !== undefined);
      return rates.map(([kind, values]) => kind + " " + values[at].toFixed(1) + "/s").join("\n");
    }
    return known === null || atY < tops.latency ? "" : nearest(atX, atY);
  }

  function nearest(atX, atY) {
    let best = null;
    let least = 64;
    const last = operations.rowAt(known, time(atX + 8));
    for (let row = operations.rowAt(known, time(atX - 8)); row < last; row += 1) {
      if (known.took[row] === 0 || hidden.has(operations.kinds[known.type[row]])) {
        continue;
      }
      const far = (x(known.from[row] * known.unit) - atX) ** 2 + (y(tookMs(row)) - atY) ** 2;
      if (far < least) {
        [best, least] = [row, far];
      }
    }
    if (best === null) {
      return "";
    }
    const [index, process, what, asked, answer, type, from, took, node, error] = operations.cells(known, best);
    return "operation " + index + " of process " + process + "\n" + what + (asked ? " " + asked : "")
      + (answer ? " → " + answer : "") + "\n" + type + " at " + from + ", took " + took
      + (node ? ", " + node : "") + (error ? "\n" + error : "");
  }

  function point(event) {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  function hover(event) {
    const [atX, atY] = point(event);
    if (dragged !== null) {
      dragged.to = Math.min(width() - RIGHT, Math.max(LEFT, atX));
      draw();
      return;
    }
    const text = atX < LEFT ? "" : under(atX, atY);
    tip.hidden = !text;
    tip.textContent = text || "";
    tip.style.left = Math.max(0, Math.min(atX + 14, width() - tip.offsetWidth - 4)) + "px";
    tip.style.top = Math.max(0, Math.min(atY + 14, height - tip.offsetHeight)) + "px";
  }

  function release() {
    if (dragged === null) {
      return;
    }
    const { from, to } = dragged;
    dragged = null;
    if (Math.abs(to - from) > 5) {
      show(time(Math.min(from, to)), time(Math.max(from, to)));
    } else {
      draw();
    }
  }

  canvas.addEventListener("pointermove", hover);
  canvas.addEventListener("pointerdown", (event) => {
    const [atX] = point(event);
    if (event.button === 0 && atX >= LEFT) {
      dragged = { from: atX, to: atX };
      canvas.setPointerCapture(event.pointerId);
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    release();
    hover(event);
  });
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("dblclick", moves.whole);
  canvas.addEventListener("keydown", (event) => {
    if (Object.hasOwn(keys, event.key) && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      moves[keys[event.key]]();
    }
  });
  for (const button of document.querySelectorAll("#controls button[data-move]")) {
    button.addEventListener("click", moves[button.dataset.move]);
  }
  for (const button of document.querySelectorAll("#controls button[data-series]")) {
    button.addEventListener("click", () => {
      const shown = hidden.delete(button.dataset.series) || !hidden.add(button.dataset.series);
      button.setAttribute("aria-pressed", String(shown));
      draw();
    });
  }
  for (const link of document.querySelectorAll("a.zoom")) {
    link.addEventListener("click", () => {
      const [from, to] = [Number(link.dataset.from), Number(link.dataset.to)];
      const margin = Math.max(0.5, (to - from) / 10);
      show(from - margin, to + margin);
    });
  }
  new ResizeObserver(draw).observe(element);
  for (const media of ["(prefers-color-scheme: dark)", "print"]) {
    window.matchMedia(media).addEventListener("change", draw);
  }

  function take(loaded) {
    known = loaded;
    known.of = Number(element.dataset.operations);
    let least = Infinity;
    let most = 0;
    for (let row = 0; row < known.count; row += 1) {
      if (known.took[row] > 0) {
        least = Math.min(least, tookMs(row));
        most = Math.max(most, tookMs(row));
      }
    }
    if (most > 0) {
      const low = Math.floor(Math.log10(Math.max(least, 1e-3)));
      decades = [low, Math.max(low + 1, Math.ceil(Math.log10(most)))];
    }
    show(begin, end);
    element.dataset.drawn = known.count;
  }

  draw();
  return { take, listen: (listener) => listeners.push(listener), range: () => [begin, end], bars: whole.bars, focus: whole.focus };
})();
