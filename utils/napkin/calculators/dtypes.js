// What a format stores of a typed number. A number is a fraction of BigInts, {top, bottom}, or Infinity, -Infinity, NaN.
// Rounded as torch does: to fp64, to fp32, to the format, each to the nearest, ties to even; tf32 cuts the digits of fp32
// that it lacks. float8_e4m3fn, which has no infinity, holds its largest number, as from torch 2.13 on.

const IN_TRAINING = {
  "fp64": "sums that run long, and checks of gradients",
  "fp32": "weights, the optimizer's state, norms and losses",
  "tf32": "inputs of matrix products on tensor cores; their sums stay in fp32",
  "fp16": "matrix products; the weights need a copy in fp32, and the loss a scale, or small gradients become 0",
  "bf16": "matrix products; the weights need a copy in fp32, or small updates are lost",
  "fp8 e4m3": "weights and activations in matrix products, with a scale for each tensor",
  "fp8 e5m2": "gradients in matrix products, with a scale for each tensor",
};

const power2 = (power) => (power >= 0 ? { top: 1n << BigInt(power), bottom: 1n } : { top: 1n, bottom: 1n << BigInt(-power) });
const times = (a, b) => ({ top: a.top * b.top, bottom: a.bottom * b.bottom });
const isFraction = (value) => typeof value === "object";
const negated = (value) => (isFraction(value) ? { top: -value.top, bottom: value.bottom } : -value);
const absolute = (value) => (value.top < 0n ? negated(value) : value);
const compare = (a, b) => { const gap = a.top * b.bottom - b.top * a.bottom; return gap > 0n ? 1 : gap < 0n ? -1 : 0; };
const bitLength = (value) => value.toString(2).length;
const bias = (form) => 2 ** (form.exponent - 1) - 1;
const lastCode = (form) => (1n << BigInt(form.exponent + form.mantissa)) - (form.infinities ? (1n << BigInt(form.mantissa)) + 1n : 2n);

function typedNumber(typed) {
  const text = typed.trim().toLowerCase().replaceAll("−", "-"), sign = text.startsWith("-") ? -1n : 1n;
  if (!text) refuse("number is empty. Write 0.1, 1e-8, 1/3, inf or nan.");
  if (/^[+-]?(inf|infinity|∞)$/.test(text)) return sign < 0n ? -Infinity : Infinity;
  if (text === "nan") return NaN;
  const ratio = /^([+-]?)(\d{1,40})\s*\/\s*(\d{1,40})$/.exec(text);
  if (ratio && BigInt(ratio[3])) return { top: sign * BigInt(ratio[2]), bottom: BigInt(ratio[3]) };
  const match = /^[+-]?(?:(\d+)\.?(\d*)|\.(\d+))(?:e([+-]?\d{1,4}))?$/.exec(text.replaceAll("_", ""));
  if (!match || text.length > 100) refuse(`${quoted(typed)} is no number. Write 0.1, 1e-8, 1/3, inf or nan.`);
  const power = Number(match[4] ?? 0), after = match[2] ?? match[3];
  if (Math.abs(power) > 400) refuse(`${quoted(typed)} is beyond every format here. Keep powers of ten between -400 and 400.`);
  const digits = sign * BigInt((match[1] ?? "") + after), scale = power - after.length;
  return scale >= 0 ? { top: digits * 10n ** BigInt(scale), bottom: 1n } : { top: digits, bottom: 10n ** BigInt(-scale) };
}

// The code of the nearest number of the format, ties to even; with `cut`, of the next one below.
function nearest(value, form, cut) {
  const beyond = lastCode(form) + (form.infinities ? 1n : 0n), lowest = 1 - bias(form);
  if (!isFraction(value)) return beyond;
  let power = lowest;
  if (value.top) {
    const size = bitLength(value.top) - bitLength(value.bottom);
    power = Math.max(lowest, size - (compare(value, power2(size)) < 0 ? 1 : 0));
  }
  const steps = times(value, power2(form.mantissa - power)), down = steps.top / steps.bottom, rest = 2n * (steps.top % steps.bottom);
  const up = !cut && (rest > steps.bottom || (rest === steps.bottom && down % 2n === 1n));
  const code = (BigInt(power - lowest) << BigInt(form.mantissa)) + down + (up ? 1n : 0n);
  return code < beyond ? code : beyond;
}
function decoded(code, form) {
  if (code < 0n) return negated(decoded(-code, form));
  if (code > lastCode(form)) return form.infinities && code === lastCode(form) + 1n ? Infinity : NaN;
  const hidden = 1n << BigInt(form.mantissa), field = code / hidden, digits = code % hidden;
  const power = Math.max(Number(field), 1) - bias(form) - form.mantissa;
  return times({ top: (field ? hidden : 0n) + digits, bottom: 1n }, power2(power));
}
function roundedCode(value, form) {
  const way = [DATA.formats.fp64, DATA.formats.fp32, form].slice(0, form.name === "fp64" ? 1 : form.name === "fp32" ? 2 : 3);
  let code = 0n;
  for (const stop of way) {
    code = nearest(value, stop, stop.name === "tf32");
    value = decoded(code, stop);
  }
  return code;
}
function toDouble(value) {
  if (!isFraction(value)) return value;
  const bits = new DataView(new ArrayBuffer(8));
  bits.setBigUint64(0, nearest(absolute(value), DATA.formats.fp64, false));
  return value.top < 0n ? -bits.getFloat64(0) : bits.getFloat64(0);
}

// All digits of a stored number if there are at most 20, otherwise 17 of them and an ellipsis.
function decimal(value) {
  const double = toDouble(value), size = Math.abs(double);
  if (Number.isNaN(double)) return "nan";
  if (!double || size === Infinity) return double ? (double > 0 ? "inf" : "-inf") : "0";
  const digits = shortened(size.toExponential(100).split("e")[0]).replace(".", "").length;
  if (digits > 20) return `${general(double, 17)}…`;
  if (size < 1e-6 || size >= 1e16) return general(double, digits);
  return double.toPrecision(Math.max(digits, Math.floor(size).toString().length));
}
// Three digits of a fraction, also of one outside the range of doubles.
function threeDigits(value) {
  const { top, bottom } = absolute(value), scale = 20 + bottom.toString().length - top.toString().length;
  const quotient = scale >= 0 ? top * 10n ** BigInt(scale) / bottom : top / (bottom * 10n ** BigInt(-scale));
  const [mantissa, power] = Number(quotient).toExponential(2).split("e"), size = Number(power) - scale;
  const text = size >= -4 && size < 3 ? general(Number(`${mantissa}e${size}`), 3) : shortened(mantissa) + exponent(size);
  return value.top < 0n ? `-${text}` : text;
}

CALCULATORS.dtypes = {
  title: "What does a format hold of a number?",
  inputs: [typed("typed", "number"), choice("form", "format", Object.keys(DATA.formats))],
  presets: {
    "0.1 in bf16": { typed: "0.1", form: "bf16" },
    "0.1 in fp64": { typed: "0.1", form: "fp64" },
    "257 in bf16": { typed: "257", form: "bf16" },
    "65,520 in fp16": { typed: "65520", form: "fp16" },
    "a small gradient in fp16": { typed: "3e-7", form: "fp16" },
    "1e-8 in fp16": { typed: "1e-8", form: "fp16" },
    "1,000 in fp8 e4m3": { typed: "1000", form: "fp8 e4m3" },
  },

  answer({ typed, form: name }) {
    const form = DATA.formats[name], exact = typedNumber(typed), width = form.exponent + form.mantissa, text = typed.trim();
    const zero = isFraction(exact) && exact.top === 0n;
    const negative = isFraction(exact) ? exact.top < 0n || (zero && text.startsWith("-")) : exact < 0;
    let code;
    if (Number.isNaN(exact)) code = width === 7 ? (1n << 7n) - 1n : (1n << BigInt(width)) - (1n << BigInt(form.mantissa - 1));
    else code = roundedCode(negative ? negated(exact) : exact, form);
    let [stored, below, above] = [code, code - 1n, code + 1n].map((each) => decoded(each, form));
    if (negative) [stored, below, above] = [negated(stored), negated(above), negated(below)];
    const bits = (negative ? "1" : "0") + code.toString(2).padStart(width, "0");
    const hidden = 1n << BigInt(form.mantissa);
    const kind = Number.isNaN(stored) ? "nan" : !isFraction(stored) ? "infinity" : !code ? "zero" : code >= hidden ? "normal" : "subnormal";
    const [smallest, normal, largest] = [1n, hidden, lastCode(form)].map((each) => toDouble(decoded(each, form)));

    function aboutError() {
      if (Number.isNaN(exact)) return "Not a number: it equals nothing, not even itself.";
      if (isFraction(exact) && isFraction(stored) ? compare(stored, exact) === 0 : stored === exact) return "Exactly what was typed: no error.";
      if (!isFraction(stored)) return `Overflow: ${text} is beyond the largest number of ${name}.`;
      if (!isFraction(exact)) return `${name} has no infinity: torch holds its largest number (before torch 2.13: nan).`;
      const error = { top: stored.top * exact.bottom - exact.top * stored.bottom, bottom: stored.bottom * exact.bottom };
      const size = absolute(exact), share = { top: absolute(error).top * size.bottom * 100n, bottom: error.bottom * size.top };
      let words = `Error ${threeDigits(error)}, ${threeDigits(share)} % of the number.`;
      if (kind === "zero") words += " It is gone: underflow.";
      const last = decoded(lastCode(form), form), before = decoded(lastCode(form) - 1n, form);
      const edge = { top: 3n * last.top * before.bottom - before.top * last.bottom, bottom: 2n * last.bottom * before.bottom };
      if (!form.infinities && compare(size, edge) > 0) {
        words += " Overflow without an infinity: held at the largest number (before torch 2.13: nan).";
      }
      return words;
    }
    function aboutValue() {
      if (kind === "infinity" || kind === "nan") return `which means ${kind}`;
      const field = parseInt(bits.slice(1, 1 + form.exponent), 2);
      return `${kind}: ${negative ? "−" : "+"}${Math.min(field, 1)}.${bits.slice(1 + form.exponent)}₂ × 2^${Math.max(field, 1) - bias(form)}`;
    }
    return {
      words: [
        `${name} holds ${decimal(stored)}`,
        aboutError(),
        `Bits: ${bits[0]} ${bits.slice(1, 1 + form.exponent)} ${bits.slice(1 + form.exponent)} (sign, exponent, mantissa), ${aboutValue()}.`,
        `Its neighbours in ${name}: ${decimal(below)} and ${decimal(above)}.`,
        `${name} reaches from ${general(smallest, 3)}, with all its digits from ${general(normal, 5)}, to ${general(largest, 6)}.`,
        `In training: ${IN_TRAINING[name]}.`,
      ],
      bits,
      exponent: form.exponent,
      near: [below, stored, above].map((each) => String(toDouble(each))), // JSON has no NaN
      limits: [smallest, normal, largest],
    };
  },

  picture({ bits, exponent }, width) {
    const size = 19, across = Math.min(32, Math.floor(width / size)), rows = Math.ceil(bits.length / across);
    const picture = new Picture(width, rows * (size + 4) + 26), colours = [ORANGE, SKY, GREEN];
    [...bits].forEach((bit, place) => {
      const x = (place % across) * size, y = Math.floor(place / across) * (size + 4);
      picture.bar(x, y, size - 2, size, colours[place === 0 ? 0 : place <= exponent ? 1 : 2]);
      picture.text(x + size / 2 - 1, y + 14, bit, "middle", "on-colour");
    });
    let x = 0;
    ["sign", "exponent", "mantissa"].forEach((name, place) => {
      picture.bar(x, rows * (size + 4) + 8, 14, 12, colours[place]);
      picture.text(x + 19, rows * (size + 4) + 19, name);
      x += legendWidth(name);
    });
    return picture.svg;
  },
};
