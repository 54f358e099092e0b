"use strict";
// Unpacks the operations that the page holds (their form: results/report/packed.py), and says what each is.
const operations = (function () {
  const text = document.getElementById("operation-data").textContent;

  async function unpacked() {
    const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  function column(bytes, at, width, rows) {
    const made = width === 1 ? new Uint8Array(rows) : width === 2 ? new Uint16Array(rows) : new Uint32Array(rows);
    for (let place = 0; place < width; place += 1) {
      const shift = 8 * place;
      for (let row = 0; row < rows; row += 1) {
        made[row] |= bytes[at + place * rows + row] << shift;
      }
    }
    return made;
  }

  function summed(steps) {
    const values = new Float64Array(steps.length);
    let value = 0;
    for (let row = 0; row < steps.length; row += 1) {
      value += (steps[row] >>> 1) ^ -(steps[row] & 1);
      values[row] = value;
    }
    return values;
  }

  async function load() {
    const bytes = await unpacked();
    const length = new DataView(bytes.buffer).getUint32(0, true);
    const known = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
    let at = 4 + length;
    for (const [name, width, rows] of known.columns) {
      known[name] = column(bytes, at, width, rows);
      at += width * rows;
    }
    known.index = summed(known.index);
    known.from = summed(known.from);
    known.unit = known.quantum_ns / 1e9;
    return known;
  }

  const kinds = ["ok", "fail", "info"];
  const digits = (unit) => (unit < 1e-5 ? 6 : 4);

  // All that a reader is shown of a row: the cells of a table of operations.
  function cells(known, row) {
    const inside = row >= known.detail[0] && row < known.detail[1];
    const text_of = (codes) => (inside ? known.texts[codes[row - known.detail[0]]] : "…");
    const what = known.functions[known.f[row]] + " " + known.keys[known.key[row]];
    const took = known.took[row] === 0 ? "never completed"
      : ((known.took[row] - 1) * known.unit * 1000).toFixed(digits(known.unit) - 3) + " ms";
    return [
      String(known.index[row]), known.processes[known.process[row]], what.trim(),
      text_of(known.asked), text_of(known.answer), kinds[known.type[row]],
      (known.from[row] * known.unit).toFixed(digits(known.unit)) + " s", took,
      known.nodes[known.node[row]], text_of(known.error),
    ];
  }

  // The first row that was invoked at this time, in seconds, or later.
  function rowAt(known, time) {
    let low = 0;
    let high = known.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (known.from[middle] * known.unit < time) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  return { load, cells, rowAt, kinds };
})();
