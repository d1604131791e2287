// Pictures as SVG, written as text, in pixels of the page, so that words keep their size on a phone.

const SKY = "#56b4e9", ORANGE = "#e69f00", GREEN = "#009e73"; // Okabe and Ito's, told apart by every eye
const SUPER = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const power10 = (power) => `10${String(power).replace("-", "⁻").replace(/\d/g, (digit) => SUPER[digit])}`;
const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text) => String(text).replace(/[&<>"]/g, (sign) => ENTITIES[sign]);
const tenth = (number) => Math.round(10 * number) / 10;

class Picture {
  constructor(width, height) {
    Object.assign(this, { width, height, parts: [] });
  }
  get svg() {
    const { width, height } = this, size = `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" class="calculator-picture" ${size} aria-hidden="true">${this.parts.join("")}</svg>`;
  }
  add(kind, attributes, text = "") {
    const set = Object.entries(attributes).map(([name, value]) => ` ${name}="${escaped(typeof value === "number" ? tenth(value) : value)}"`);
    this.parts.push(`<${kind}${set.join("")}>${escaped(text)}</${kind}>`);
  }
  bar(x, y, width, height, fill, more = {}) { this.add("rect", { x, y, width: Math.max(width, 0), height, fill, ...more }); }
  line(points, kind) { this.add("polyline", { points: points.map(([x, y]) => `${tenth(x)},${tenth(y)}`).join(" "), class: kind }); }
  dot(x, y, kind) { this.add("circle", { cx: x, cy: y, r: 5.5, class: kind }); }
  text(x, y, words, anchor = "start", kind = "") { this.add("text", { x, y, "text-anchor": anchor, class: kind }, words); }

  // The part at `place` of several that touch: every other one is hatched, so that they differ without colour too.
  part(x, y, width, height, colours, place, more = {}) {
    this.bar(x, y, width, height, colours[place], { class: "outlined", ...more });
    if (place % 2 === 0 || width < 3) return;
    const strokes = [];
    for (let at = 3; at < width + height; at += 6) {
      const from = [x + Math.max(0, at - height), y + Math.min(at, height)], to = [x + Math.min(at, width), y + Math.max(0, at - width)];
      strokes.push(`M${from.map(tenth).join()} ${to.map(tenth).join()}`);
    }
    this.add("path", { d: strokes.join(""), class: "hatch" });
  }
  legend(names, colours, top) {
    let x = 0, y = top;
    names.forEach((name, place) => {
      const wide = legendWidth(name);
      if (x + wide > this.width) [x, y] = [0, y + 20];
      this.part(x, y, 14, 12, colours, place);
      this.text(x + 19, y + 11, name);
      x += wide;
    });
  }
}
const legendWidth = (name) => 34 + 7.4 * name.length;
const legendRows = (names, width) => Math.ceil(sum(names.map(legendWidth)) / (width - 40));
const logarithmic = (low, high, from, to) => (value) => from + (to - from) * (Math.log(value / low) / Math.log(high / low));
const total = (parts) => sum(Object.values(parts));

// rows: [label, {part: number}, what stands at its end]; shares: each row as a share of itself, else of the longest.
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
      picture.part(x, y, long, high - 6, colours, place, { opacity: chosen === undefined || chosen === row ? "1" : "0.55" });
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
    picture.dot(atX(x), atY(y), kind);
    picture.dot(edge, 308 + 20 * place, kind);
    picture.text(edge + 12, 312 + 20 * place, label);
  });
  return picture.svg;
}
