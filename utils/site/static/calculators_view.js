// The calculators on a page: controls that a mouse or a keyboard moves, the answer in words, a picture drawn as SVG.
// Each element with data-calculator gets one; what stood in it for browsers without JavaScript is hidden then.
"use strict";
(() => {
  const DATA = globalThis.COURSE_CALCULATORS;
  const { answer, amount, byteSize, duration, general, keysThatFollow, shortCount, sliderStop, whole } = globalThis.courseCalculators;
  let ids = 0; // of controls, each its own

  function make(kind, settings = {}, ...children) {
    const element = document.createElement(kind);
    for (const [name, value] of Object.entries(settings)) {
      if (name in element) element[name] = value;
      else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  // Controls: each has an element, a value, and `changed`, which it calls when a person moved it

  // A slider's number with three digits; powers of two below a million with all of them.
  function written(number) {
    const exact = number < 1e6 && Number.isInteger(Math.log2(number));
    return shortCount(exact ? number : Number(general(number, 3)));
  }

  class Control {
    constructor(input) {
      this.input = input;
      this.id = `calculator-control-${++ids}`;
      this.changed = () => {};
      this.element = make("div", { className: "setting" }, make("label", { htmlFor: this.id, textContent: input.label }));
    }
    add(...elements) { this.element.append(...elements); }
  }

  class ScaleControl extends Control {
    constructor(input) {
      super(input);
      this.step = input.base === 10 ? 0.05 : 1;
      this.stop = written;
      const places = Math.round((input.high - input.low) / this.step);
      this.slider = make("input", { type: "range", min: 0, max: places, step: 1, "aria-label": input.label });
      this.box = make("input", { type: "text", id: this.id, autocomplete: "off", spellcheck: false });
      this.slider.addEventListener("input", () => { this.value = this.stop(this.there(Number(this.slider.value))); this.changed(); });
      this.box.addEventListener("change", () => { this.value = this.box.value; this.changed(); });
      this.add(this.slider, this.box);
    }
    there(place) { return this.input.base ** (this.input.low + place * this.step); }
    get value() { return this.box.value; }
    set value(text) {
      this.box.value = text;
      this.slider.setAttribute("aria-valuetext", text);
      let number;
      try { number = amount(this.input.name, text); } catch { return; } // the slider stays where it is
      const power = number > 0 ? Math.log(number) / Math.log(this.input.base) : this.input.low;
      const { low, high } = this.input;
      this.slider.value = Math.round((Math.min(Math.max(power, low), high) - low) / this.step);
    }
  }

  class SlideControl extends Control {
    constructor(input) {
      super(input);
      this.slider = make("input", { type: "range", id: this.id, min: input.low, max: input.high, step: input.step });
      this.shown = make("output", { htmlFor: this.id });
      this.slider.addEventListener("input", () => { this.value = Number(this.slider.value); this.changed(); });
      this.add(this.slider, this.shown);
    }
    get value() { return Number(Number(this.slider.value).toFixed(9)); }
    set value(number) {
      this.slider.value = number;
      this.shown.textContent = String(this.value);
    }
  }

  class ChoiceControl extends Control {
    constructor(input) {
      super(input);
      this.select = make("select", { id: this.id }, ...input.options.map(([name]) => make("option", { textContent: name })));
      this.select.addEventListener("change", () => this.changed());
      this.add(this.select);
    }
    get value() { return this.input.options[this.select.selectedIndex][1]; }
    set value(value) { this.select.selectedIndex = this.input.options.findIndex(([, each]) => each === value); }
  }

  class SwitchControl extends Control {
    constructor(input) {
      super(input);
      this.box = make("input", { type: "checkbox", id: this.id });
      this.box.addEventListener("change", () => this.changed());
      this.add(this.box);
    }
    get value() { return this.box.checked; }
    set value(value) { this.box.checked = value; }
  }

  class TypedControl extends Control {
    constructor(input) {
      super(input);
      this.box = make("input", { type: "text", id: this.id, autocomplete: "off", spellcheck: false });
      this.box.addEventListener("input", () => this.changed());
      this.add(this.box);
    }
    get value() { return this.box.value; }
    set value(text) { this.box.value = text; }
  }

  const CONTROLS = { Scale: ScaleControl, Slide: SlideControl, Choice: ChoiceControl, Switch: SwitchControl, Typed: TypedControl };

  // Pictures: SVG in pixels of the page, so that words keep their size on a phone

  const SPACE = "http://www.w3.org/2000/svg";
  const SKY = "#56b4e9", ORANGE = "#e69f00", GREEN = "#009e73"; // Okabe and Ito's, told apart by every eye
  const SUPER = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const power10 = (power) => `10${String(power).replace("-", "⁻").replace(/\d/g, (digit) => SUPER[digit])}`;

  class Picture {
    constructor(width, height) {
      this.width = width;
      this.height = height;
      this.svg = document.createElementNS(SPACE, "svg");
      this.set(this.svg, { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    }
    set(element, attributes) { for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value); }
    add(kind, attributes, text) {
      const element = document.createElementNS(SPACE, kind);
      this.set(element, attributes);
      if (text !== undefined) element.textContent = text;
      this.svg.append(element);
      return element;
    }
    bar(x, y, width, height, fill, more = {}) { this.add("rect", { x, y, width: Math.max(width, 0), height, fill, ...more }); }
    line(points, kind) { this.add("polyline", { points: points.map((each) => each.map((at) => at.toFixed(1)).join()).join(" "), class: kind }); }
    text(x, y, words, anchor = "start", kind = "") { this.add("text", { x, y, "text-anchor": anchor, class: kind }, words); }
    legend(names, colours, top) {
      let x = 0, y = top;
      names.forEach((name, place) => {
        const wide = 32 + 7.4 * name.length;
        if (x + wide > this.width) [x, y] = [0, y + 20];
        this.bar(x, y, 12, 12, colours[place], { class: "outlined" });
        this.text(x + 17, y + 11, name);
        x += wide;
      });
    }
  }
  const logarithmic = (low, high, from, to) => (value) => from + (to - from) * (Math.log(value / low) / Math.log(high / low));
  const total = (parts) => Object.values(parts).reduce((all, each) => all + each, 0);

  const legendRows = (names, width) => Math.ceil(names.reduce((all, name) => all + 32 + 7.4 * name.length, 0) / (width - 40));

  // rows: [label, {part: number}, what stands at its end]; of: each row as a share of itself, or of the longest.
  function stackedBars(width, rows, colours, { chosen, limit, limitLabel, shares } = {}) {
    const names = Object.keys(rows[0][1]), left = 106, right = Math.min(110, width / 4), high = 24, top = limit ? 24 : 6;
    const picture = new Picture(width, top + rows.length * high + 16 + 20 * legendRows(names, width));
    const longest = Math.max(limit ?? 0, ...rows.map(([, parts]) => total(parts))), room = width - left - right;
    if (limit) {
      const x = left + room * limit / longest;
      picture.line([[x, top - 4], [x, top + rows.length * high]], "limit");
      picture.text(x, top - 9, limitLabel, limit > 0.3 * longest ? "end" : "start");
    }
    rows.forEach(([label, parts, end], row) => {
      const y = top + row * high, all = shares ? total(parts) : longest;
      let x = left;
      names.forEach((name, place) => {
        const long = room * parts[name] / all;
        picture.bar(x, y, long, high - 6, colours[place], { class: "outlined", opacity: chosen === undefined || chosen === row ? 1 : 0.55 });
        x += long;
      });
      picture.text(left - 6, y + 14, label, "end", chosen === row ? "chosen" : "");
      picture.text(x + 5, y + 14, end, "start", chosen === row ? "chosen plate" : "plate");
    });
    picture.legend(names, colours, top + rows.length * high + 8);
    return picture.svg;
  }

  // A plot with two logarithmic axes; lines: [[[x, y], …], class]; points: [x, y, label, class], named below it, since
  // beside two points that meet their names would meet too.
  function logPlot(width, { x: [left, right], y: [low, high], lines, points, across, up }) {
    const picture = new Picture(width, 302 + 20 * points.length), edge = 46, floor = 258;
    const atX = logarithmic(left, right, edge, width - 12), atY = logarithmic(low, high, floor, 24);
    const ticks = (from, to, most) => {
      const first = Math.ceil(Math.log10(from)), last = Math.floor(Math.log10(to)), every = Math.ceil((last - first + 1) / most) || 1;
      return Array.from({ length: Math.floor((last - first) / every) + 1 }, (_, place) => first + place * every);
    };
    for (const power of ticks(left, right, width / 60)) {
      picture.line([[atX(10 ** power), floor], [atX(10 ** power), 24]], "grid");
      picture.text(atX(10 ** power), floor + 16, power10(power), "middle");
    }
    for (const power of ticks(low, high, 6)) {
      picture.line([[edge, atY(10 ** power)], [width - 12, atY(10 ** power)]], "grid");
      picture.text(edge - 5, atY(10 ** power) + 4, power10(power), "end");
    }
    picture.text(width - 12, floor + 34, across, "end");
    picture.text(2, 13, up);
    for (const [line, kind] of lines) picture.line(line.map(([x, y]) => [atX(x), atY(y)]), kind);
    points.forEach(([x, y, label, kind], place) => {
      picture.add("circle", { cx: atX(x), cy: atY(y), r: 5.5, class: kind });
      picture.add("circle", { cx: edge, cy: 308 + 20 * place, r: 5.5, class: kind });
      picture.text(edge + 12, 312 + 20 * place, label);
    });
    return picture.svg;
  }

  const YEAR = 365 * 86400;
  const SPANS = [[60, "minute"], [3600, "hour"], [86400, "day"], [30 * 86400, "month"], [YEAR, "year"], [100 * YEAR, "100 years"]];
  const short = (processor) => DATA.short[processor];

  const PICTURES = {
    "training-time": ({ secondsByGpu, gpu }, width) => {
      const picture = new Picture(width, secondsByGpu.length * 26 + 34), left = 76, right = 96, floor = secondsByGpu.length * 26 + 4;
      const all = secondsByGpu.map(([, seconds]) => seconds), low = Math.min(20, ...all) / 2, high = Math.max(1000 * YEAR, ...all);
      const at = logarithmic(low, high, left, width - right);
      let last = -99;
      for (const [seconds, name] of SPANS) {
        if (seconds < low || seconds > high || at(seconds) - last < 62) continue;
        last = at(seconds);
        picture.line([[last, 0], [last, floor]], "grid");
        picture.text(last, floor + 18, name, "middle");
      }
      secondsByGpu.forEach(([name, seconds], row) => {
        const kind = name === gpu ? "chosen" : "";
        picture.bar(left, row * 26 + 4, at(seconds) - left, 17, kind ? ORANGE : SKY);
        picture.text(left - 6, row * 26 + 17, short(name), "end", kind);
        picture.text(at(seconds) + 6, row * 26 + 17, duration(seconds), "start", kind);
      });
      return picture.svg;
    },

    "storage-layout": ({ view, stride, offset, stored }, width) => {
      const size = 27, places = Math.min(24, Math.floor(width / size)), columns = Math.min(view.at(-1) ?? 1, Math.min(12, places));
      const rowShape = view.slice(0, -1), rows = Math.min(rowShape.reduce((all, each) => all * each, 1), 6);
      const colours = DATA.colours.memory.filter((_, place) => place), picture = new Picture(width, (rows + 1) * size + 66);
      const reader = new Map();
      picture.text(0, 13, "what each place of the view reads");
      for (let row = 0; row < rows; row++) {
        let rest = row, start = offset;
        for (let axis = rowShape.length - 1; axis >= 0; axis--) { start += (rest % rowShape[axis]) * stride[axis]; rest = Math.floor(rest / rowShape[axis]); }
        for (let column = 0; column < columns; column++) {
          const place = start + column * (stride.at(-1) ?? 0);
          if (!reader.has(place)) reader.set(place, row);
          square(column, 22 + row * size, place, colours[row]);
        }
        if ((view.at(-1) ?? 1) > columns) picture.text(columns * size + 4, 40 + row * size, "…");
      }
      const top = 22 + rows * size + 24;
      picture.text(0, top - 8, "the storage, grey where not read above");
      for (let place = 0; place < Math.min(places, stored); place++) square(place, top, place, reader.has(place) ? colours[reader.get(place)] : "#9aa5b1");
      function square(column, y, place, colour) {
        picture.bar(column * size, y, size - 2, size - 2, colour);
        const digits = place < 1000 ? String(place) : "…";
        picture.text(column * size + size / 2 - 1, y + 17, digits, "middle", "on-colour");
      }
      return picture.svg;
    },

    dtypes: ({ bits, exponent }, width) => {
      const size = 19, across = Math.min(32, Math.floor(width / size)), rows = Math.ceil(bits.length / across);
      const picture = new Picture(width, rows * (size + 4) + 26);
      [...bits].forEach((bit, place) => {
        const x = (place % across) * size, y = Math.floor(place / across) * (size + 4);
        picture.bar(x, y, size - 2, size, place === 0 ? ORANGE : place <= exponent ? SKY : GREEN);
        picture.text(x + size / 2 - 1, y + 14, bit, "middle", "on-colour");
      });
      picture.legend(["sign", "exponent", "mantissa"], [ORANGE, SKY, GREEN], rows * (size + 4) + 8);
      return picture.svg;
    },

    matmul: ({ roofs, bandwidth, precision, intensity, attainable, ridge }, width) => {
      const left = Math.min(0.1, intensity / 3), right = Math.max(1e4, 3 * ridge, 3 * intensity);
      const low = Math.min(left * bandwidth, attainable / 3), high = 4 * Math.max(...roofs.map(([, peak]) => peak));
      const roof = ([name, peak]) => [[[left, left * bandwidth], [peak / bandwidth, peak], [right, peak]], name === precision ? "best" : "other"];
      const roofLines = [...roofs.filter(([name]) => name !== precision), ...roofs.filter(([name]) => name === precision)].map(roof);
      return logPlot(width, {
        x: [left, right], y: [low, high], across: "FLOPs for each byte moved", up: `FLOP/s (thick: ${precision}, thin: the others)`,
        lines: roofLines, points: [[intensity, attainable, `this product: ${general(intensity, 4)} FLOPs for each byte`, "yours"]],
      });
    },

    "parameter-shares": ({ bars }, width) =>
      stackedBars(width, bars.map(([name, parts]) => [name, parts, shortCount(total(parts))]), DATA.colours.parameters, { chosen: 0, shares: true }),

    "memory-budget": ({ byStage, stage, limit, card }, width) =>
      stackedBars(width, byStage.map((parts, each) => [each ? `ZeRO stage ${each}` : "no ZeRO", parts, byteSize(total(parts))]),
        DATA.colours.memory, { chosen: stage, limit, limitLabel: card }),

    "n-against-d": ({ flops, ratio, best, yours }, width) => {
      const points = [best, yours, DATA.gpt3], [xs, ys] = [0, 1].map((axis) => points.map((each) => each[axis]));
      const x = [Math.min(...xs) / 10, Math.max(...xs) * 10], y = [Math.min(...ys) / 20, Math.max(...ys) * 20];
      const within = (curve, back) => [Math.max(x[0], Math.min(...y.map(back))), Math.min(x[1], Math.max(...y.map(back)))].map((n) => [n, curve(n)]);
      const name = (word, [n, d]) => `${word}: ${shortCount(n)} × ${shortCount(d)}`;
      return logPlot(width, {
        x, y, across: "parameters", up: `tokens (dotted: ${general(ratio, 4)} a parameter)`,
        lines: [[within((n) => flops / 6 / n, (d) => flops / 6 / d), "best"], [within((n) => ratio * n, (d) => d / ratio), "rule"]],
        points: [[...DATA.gpt3, "GPT-3", "known"], [...best, name("best", best), "best"], [...yours, name("yours", yours), "yours"]],
      });
    },

    "step-memory": ({ moments, peak }, width) => {
      const names = Object.keys(moments[0][1]), picture = new Picture(width, 248 + 20 * legendRows(names, width)), left = 8, floor = 214, totals = moments.map(([, parts]) => total(parts));
      const top = Math.max(...totals), at = (place) => left + (width - 2 * left) * place / (moments.length - 1), high = (bytes) => floor - 184 * bytes / top;
      let below = moments.map(() => 0);
      names.forEach((name, place) => {
        const above = moments.map(([, parts], moment) => below[moment] + parts[name]);
        const edge = (heights) => heights.map((bytes, moment) => `${at(moment).toFixed(1)},${high(bytes).toFixed(1)}`);
        picture.add("polygon", { points: [...edge(above), ...edge(below).reverse()].join(" "), fill: DATA.colours.memory[place], class: "outlined" });
        below = above;
      });
      const highest = totals.indexOf(top), anchor = at(highest) < width / 3 ? "start" : at(highest) > 2 * width / 3 ? "end" : "middle";
      picture.add("circle", { cx: at(highest), cy: high(top), r: 4, class: "yours" });
      picture.text(at(highest), high(top) - 10, peak, anchor);
      const loss = moments.findIndex(([when]) => when === "loss"), last = moments.length - 1;
      for (const [place, words, anchor] of [[0, "start", "start"], [loss / 2, "forward", "middle"], [loss, "loss", "middle"], [(loss + last) / 2, "backward", "middle"], [last, "update", "end"]]) {
        picture.text(at(place), floor + 18, words, anchor);
      }
      picture.legend(names, DATA.colours.memory, floor + 32);
      return picture.svg;
    },

    overlap: ({ backward, buckets, atOnce }, width) => {
      const picture = new Picture(width, 118), left = 82, end = Math.max(backward, buckets.at(-1)[1], atOnce);
      const at = (seconds) => left + (width - left - 8) * seconds / end, every = Math.ceil(buckets.length / 60);
      picture.text(left - 8, 43, "backward", "end");
      picture.bar(left, 28, at(backward) - left, 22, SKY);
      picture.text(left - 8, 75, "all-reduce", "end");
      for (let first = 0; first < buckets.length; first += every) {
        const [begins] = buckets[first], [, ends] = buckets[Math.min(first + every, buckets.length) - 1];
        picture.bar(at(begins), 60, at(ends) - at(begins), 22, ORANGE, { class: "outlined" });
      }
      picture.line([[at(backward), 24], [at(backward), 90]], "rule");
      picture.line([[at(atOnce), 24], [at(atOnce), 90]], "limit");
      picture.text(Math.max(276, at(atOnce)), 16, "one all-reduce, after backward, ends here", "end");
      picture.text(left, 108, "0");
      picture.text(width - 8, 108, `${general(1e3 * end, 4)} ms`, "end");
      return picture.svg;
    },

    schedule: ({ rates, warmup }, width) => {
      const picture = new Picture(width, 220), left = 8, floor = 188, top = Math.max(...rates.length > 1e5 ? [rates[warmup]] : rates);
      const at = (step) => left + (width - 2 * left) * step / Math.max(1, rates.length - 1), high = (rate) => floor - 160 * rate / top;
      const every = Math.max(1, Math.floor(rates.length / 600)), steps = [];
      for (let step = 0; step < rates.length; step += every) steps.push(step);
      const points = [...new Set([...steps, Math.min(warmup, rates.length - 1), rates.length - 1])].sort((a, b) => a - b);
      const line = (some) => some.map((step) => [at(step), high(rates[step])]);
      picture.line([[left, floor], [width - left, floor]], "grid");
      picture.line(line(points.filter((step) => step >= warmup)), "best");
      if (warmup) picture.line(line(points.filter((step) => step <= warmup)), "warmup");
      picture.text(left, 14, `learning rate, at most ${general(top, 3)}${warmup ? "; orange: warm-up" : ""}`);
      picture.text(left, floor + 18, "step 0");
      picture.text(width - left, floor + 18, whole(rates.length - 1), "end");
      return picture.svg;
    },
  };

  // One calculator in its place

  function mount(place) {
    const name = place.dataset.calculator, spec = DATA.specs[name];
    const controls = Object.fromEntries(spec.inputs.map((input) => [input.name, new CONTROLS[input.kind](input)]));
    const presetId = `calculator-control-${++ids}`;
    const preset = make("select", { id: presetId }, ...[...Object.keys(spec.presets), DATA.own].map((each) => make("option", { textContent: each })));
    const said = make("div", { className: "answer", role: "status" }), drawn = make("div", { className: "drawn", role: "img" });
    const settings = make("div", { className: "settings" }, make("div", { className: "setting" }, make("label", { htmlFor: presetId, textContent: "start from" }), preset),
      ...Object.values(controls).map((control) => control.element));
    const inputs = () => Object.fromEntries(Object.entries(controls).map(([argument, control]) => [argument, control.value]));
    const set = (values) => { for (const [argument, value] of Object.entries(values)) controls[argument].value = value; };
    let before = {}, current = null, wide = 0; // px

    function draw() {
      drawn.hidden = Boolean(current.refused);
      if (current.refused) return;
      wide = Math.max(280, Math.min(720, drawn.clientWidth || 640));
      drawn.replaceChildren(PICTURES[name](current, wide));
    }
    function tell() {
      before = inputs();
      current = answer(name, before);
      const [first, ...rest] = current.words;
      said.replaceChildren(make("p", {}, make("strong", { textContent: first })), ...rest.map((line) => make("p", { textContent: line })));
      drawn.setAttribute("aria-label", `${spec.title} ${current.words.join(" ")}`);
      draw();
    }
    function changed() {
      const now = inputs();
      if ("kv_heads" in now && now.heads !== before.heads && now.kv_heads === before.kv_heads) {
        const keys = keysThatFollow(now.heads, now.kv_heads, before.heads);
        if (keys !== null) set({ kv_heads: whole(keys) });
      }
      preset.value = DATA.own;
      tell();
    }
    for (const [argument, control] of Object.entries(controls)) {
      control.changed = changed;
      if (name === "parameter-shares" && ["width", "heads", "kv_heads"].includes(argument)) {
        control.stop = (number) => whole(sliderStop(argument, Math.round(number), inputs()));
      }
    }
    preset.addEventListener("change", () => {
      if (preset.value === DATA.own) return;
      set(spec.presets[preset.value]);
      tell();
    });
    place.classList.add("is-live");
    place.append(make("div", { className: "live", role: "group", "aria-label": spec.title }, settings, said, drawn));
    set(Object.values(spec.presets)[0]);
    tell();
    new ResizeObserver(() => { if (Math.min(720, drawn.clientWidth) !== wide) draw(); }).observe(place);
  }

  document.querySelectorAll("[data-calculator]").forEach(mount);
})();
