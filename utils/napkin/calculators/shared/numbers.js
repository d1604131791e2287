// Numbers as people write them, in the words of utils/figures/numbers.py, and as people type them. An input that has no
// answer throws Refused, with the reason and the next move.

class Refused extends Error {}
const refuse = (words) => { throw new Refused(words); };
const sum = (values) => values.reduce((all, each) => all + each, 0);
const DAY = 86400, YEAR = 365 * DAY; // seconds

const grouped = (text) => text.replace(/^-?\d+/, (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ","));
const shortened = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
const exponent = (power) => `e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;

// So many significant digits, as a power of ten where the number is large or small: 7.466e+18.
function general(value, digits) {
  if (!value || !Number.isFinite(value)) return String(value);
  const [mantissa, power] = value.toExponential(digits - 1).split("e");
  if (power < -4 || power >= digits) return shortened(mantissa) + exponent(Number(power));
  return shortened(value.toPrecision(digits));
}
const fixed = (value, places) => (Math.abs(value) < 1e15 ? grouped(value.toFixed(places)) : general(value, 4));
const whole = (value) => grouped(BigInt(value).toString()); // all digits of a whole number
const roundedTo = (value, digits) => Number(value.toPrecision(digits));

function significant(value, digits) {
  if (Math.abs(value) >= 999999.5) return general(value, digits);
  return Math.abs(roundedTo(value, digits)) >= 10 ** digits ? fixed(value, 0) : general(value, digits);
}
function scaled(value, rounded) {
  let power = 0;
  for (; Math.abs(rounded(value)) >= 1000 && power < DATA.prefixes.length - 1; power++) value /= 1000;
  return [value, DATA.prefixes[power]];
}
function prefixed(value, unit, digits) {
  const [number, prefix] = scaled(value, (each) => roundedTo(each, digits));
  return `${significant(number, digits)} ${prefix}${unit}`;
}
function byteSize(bytes) {
  const [number, prefix] = scaled(bytes, (each) => Number(each.toFixed(1)));
  if (!prefix) return `${fixed(number, 0)} B`;
  return number < 1e6 ? `${fixed(number, 1)} ${prefix}B` : `${general(number, 3)} ${prefix}B`;
}
const LETTERS = [[1e12, "T"], [1e9, "B"], [1e6, "M"]];
function shortCount(number) {
  if (Math.abs(number) < 1e6 && Number.isInteger(number)) return whole(number);
  for (const [unit, letter] of LETTERS) {
    if (0.9995 * unit <= Math.abs(number) && Math.abs(number) < 999.5 * unit) return `${general(number / unit, 3)}${letter}`;
  }
  return significant(number, 3);
}
function duration(seconds) {
  for (const [least, unit, name] of DATA.spans) if (seconds >= least) return `${significant(seconds / unit, 4)} ${name}`;
  for (const [unit, name] of DATA.instants) if (roundedTo(seconds / unit, 3) >= 1) return `${significant(seconds / unit, 3)} ${name}`;
  return seconds ? `${general(seconds / 1e-9, 3)} ns` : "0 s";
}
const percent = (part, all) => `${general(100 * part / all, 3)} %`;

// What is typed

const NUMBER = /^([+-]?(?:\d{1,3}(?:,\d{3})+|\d+(?:_\d+)*|(?=\.\d))(?:\.\d*)?(?:e[+-]?\d{1,6})?) ?([kmbt]?)$/i;
const POWERS = { "": 0, k: 3, m: 6, b: 9, t: 12 };
const LARGEST = 30; // power of ten of a number that a calculator takes
const quoted = (text) => `“${text.length <= 40 ? text : `${text.slice(0, 36)} …`}”`;

function readAmount(label, typed) {
  const text = String(typed).trim(), match = text.length < 400 && NUMBER.exec(text);
  if (!text) refuse(`${label} is empty. Write a number, such as 8B, 0.5 or 1,024.`);
  if (!match) refuse(`${label}: ${quoted(text)} is no number. Write it as 8B, 8e9 or 8,000,000,000.`);
  const [digits, power] = match[1].replace(/[,_]/g, "").toLowerCase().split("e");
  const number = Number(`${digits}e${Number(power ?? 0) + POWERS[match[2].toLowerCase()]}`);
  const size = number ? Number(number.toExponential().split("e")[1] ?? Infinity) : /[1-9]/.test(digits) ? -Infinity : 0;
  if (Math.abs(size) > LARGEST) {
    const side = size > 0 ? `beyond 1e${LARGEST}` : `closer to zero than 1e-${LARGEST}`;
    refuse(`${label}: ${quoted(text)} is ${side}, where this calculator ends. Try something nearer to 1.`);
  }
  return number;
}
function readPositive(label, typed) {
  const number = readAmount(label, typed);
  if (number <= 0) refuse(`${label}: ${quoted(String(typed))} is not above zero. Give more than 0.`);
  return number;
}
function readCount(label, typed) {
  const number = readAmount(label, typed);
  if (!Number.isInteger(number) || number < 1) refuse(`${label}: ${quoted(String(typed))} is no whole number above zero. Give 1 or more.`);
  return number;
}
