// The calculators' answers in the browser: what utils/napkin's answers.py and step_answers.py compute, in the same words.
// Facts, names and limits come from calculators_data.js, which Python writes. A test compares both languages over a grid.
// Numbers are doubles; where digits are exact (bits, strides) they are BigInt. An input without an answer throws Refused.
"use strict";
(() => {
  const DATA = globalThis.COURSE_CALCULATORS;
  const DAY = 86400;
  class Refused extends Error {}
  const refuse = (words) => { throw new Refused(words); };
  const sum = (values) => values.reduce((all, each) => all + each, 0);

  // Numbers as Python writes them

  // A finite double ≥ 0 exactly: digits × 10^-scale.
  function exactly(value) {
    const bits = new DataView(new ArrayBuffer(8));
    bits.setFloat64(0, value);
    const code = bits.getBigUint64(0), field = Number(code >> 52n), fraction = code & ((1n << 52n) - 1n);
    const mantissa = field ? fraction | (1n << 52n) : fraction, power = Math.max(field, 1) - 1075;
    return power >= 0 ? { digits: mantissa << BigInt(power), scale: 0 } : { digits: mantissa * 5n ** BigInt(-power), scale: -power };
  }

  // digits × 10^-scale, to so many places after the point (before it if negative), ties to even.
  function toPlaces({ digits, scale }, places) {
    if (scale <= places) return { digits: digits * 10n ** BigInt(places - scale), scale: places };
    const unit = 10n ** BigInt(scale - places), whole = digits / unit, rest = 2n * (digits % unit);
    const up = rest > unit || (rest === unit && whole % 2n === 1n);
    return { digits: whole + (up ? 1n : 0n), scale: places };
  }
  const leading = ({ digits, scale }) => digits.toString().length - 1 - scale; // the power of ten of the first digit
  function toDigits(number, count) {
    const once = toPlaces(number, count - 1 - leading(number));
    return once.digits.toString().length > count ? toPlaces(number, count - 2 - leading(number)) : once;
  }
  const grouped = (text) => text.replace(/^\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));

  function plain({ digits, scale }) {
    if (scale <= 0) return (digits * 10n ** BigInt(-scale)).toString();
    const text = digits.toString().padStart(scale + 1, "0");
    return `${text.slice(0, -scale)}.${text.slice(-scale)}`;
  }
  const signed = (value, text) => (value < 0 || Object.is(value, -0) ? `-${text}` : text);
  const shortened = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

  // f"{value:.{places}f}", with commas
  const fixed = (value, places) => signed(value, grouped(plain(toPlaces(exactly(Math.abs(value)), places))));
  // f"{value:.{digits}g}"
  function general(value, digits) {
    if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
    if (value === 0) return signed(value, "0");
    const number = toDigits(exactly(Math.abs(value)), digits), power = leading(number);
    if (power >= -4 && power < digits) return signed(value, shortened(plain(number)));
    const text = number.digits.toString(), size = Math.abs(power).toString().padStart(2, "0");
    return signed(value, `${shortened(`${text[0]}.${text.slice(1)}`)}e${power < 0 ? "-" : "+"}${size}`);
  }
  const whole = (value) => grouped(BigInt(value).toString()); // f"{value:,}"
  const roundedTo = (value, digits) => Number(general(value, digits));

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
    const [number, prefix] = scaled(bytes, (each) => Number(plain(toPlaces(exactly(each), 1))));
    if (!prefix) return `${fixed(number, 0)} B`;
    return number < 1e6 ? `${fixed(number, 1)} ${prefix}B` : `${general(number, 3)} ${prefix}B`;
  }
  function shortCount(number) {
    if (Math.abs(number) < 1e6 && Number.isInteger(number)) return whole(number);
    for (const [unit, letter] of DATA.letters) {
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
  function dollarsOf(amount) {
    if (amount < 100) return `${fixed(amount, 2)} dollars`;
    return amount < 1e12 ? `${fixed(amount, 0)} dollars` : `${general(amount, 3)} dollars`;
  }

  // Inputs as people type them

  const NUMBER = /^([+-]?(?:\d{1,3}(?:,\d{3})+|\d+(?:_\d+)*|(?=\.\d))(?:\.\d*)?(?:e[+-]?\d{1,6})?) ?([kmbt]?)$/i;
  const POWERS = { "": 0, k: 3, m: 6, b: 9, t: 12 };
  function quoted(value) {
    const mark = value.includes("'") && !value.includes('"') ? '"' : "'";
    const text = mark + value.replace(/\\/g, "\\\\").replaceAll(mark, `\\${mark}`) + mark;
    return text.length <= 40 ? text : `${text.slice(0, 36)} …`;
  }
  const shown = (value) => (typeof value === "string" ? quoted(value) : String(value));

  function amount(name, value) {
    const text = String(value).trim(), found = text.length < 400 && NUMBER.exec(text);
    if (!found) refuse(`${name}=${shown(value)} is no number: write it as 8B, 8e9 or 8,000,000,000`);
    const [digits, power] = found[1].replace(/[,_]/g, "").toLowerCase().split("e");
    const number = Number(`${digits}e${Number(power ?? 0) + POWERS[found[2].toLowerCase()]}`);
    const size = number ? Number(number.toExponential().split("e")[1] ?? Infinity) : /[1-9]/.test(digits) ? -Infinity : 0;
    if (Math.abs(size) > DATA.largest) {
      const side = size > 0 ? "beyond 1e30" : "closer to zero than 1e-30";
      refuse(`${name}=${shown(value)} is ${side}, where this calculator ends: try something nearer to 1`);
    }
    return number;
  }
  function count(name, value) {
    const number = amount(name, value);
    if (!Number.isInteger(number) || number < 1) refuse(`${name}=${shown(value)} is no whole number above zero: give 1 or more`);
    return number;
  }
  function positive(name, value) {
    if (!(value > 0)) refuse(`${name}=${value}: give a finite number above zero`);
    return value;
  }
  function peakOf(processor, precision) {
    const flops = DATA.processors[processor].flops;
    if (!(precision in flops)) refuse(`'${processor}' has no ${precision} units: choose among ${Object.keys(flops).join(", ")}`);
    return flops[precision];
  }
  const shortName = (processor) => DATA.short[processor];

  // Formulas that several answers share

  function divisorsAround(all, number) {
    const divisors = [];
    for (let each = 1; each <= Math.min(all, DATA.few); each++) if (all % each === 0) divisors.push(each);
    divisors.push(all);
    const below = Math.max(...divisors.filter((each) => each <= number)), above = divisors.filter((each) => each >= number);
    return [...new Set([below, above.length ? Math.min(...above) : below])];
  }
  const either = (sizes) => sizes.join(" or ");

  function parameterParts(shape) {
    const { layers, width, heads, kv_heads, ffn, vocabulary, context } = shape;
    if (width % heads) {
      const below = BigInt(width) / BigInt(heads) * BigInt(heads); // exact also where doubles have gaps
      const widths = either([below, below + BigInt(heads)].filter(Boolean));
      refuse(`width=${BigInt(width)} does not split into heads=${heads}: choose width ${widths}, or heads ${either(divisorsAround(width, heads))}`);
    }
    if (heads % kv_heads) {
      refuse(`heads=${heads} do not share kv_heads=${kv_heads} evenly: choose kv_heads ${either(divisorsAround(heads, kv_heads))}`);
    }
    const shared = (width / heads) * kv_heads, bias = shape.biases ? 1 : 0;
    const up = [width, ffn], down = [ffn, width];
    const matrices = {
      attention: [[width, width], [width, shared], [width, shared], [width, width]],
      ffn: shape.gated ? [up, up, down] : [up, down],
    };
    const of = (part) => layers * sum(matrices[part].map(([rows, columns]) => rows * columns + bias * columns));
    return {
      embedding: vocabulary * width,
      positions: shape.learned_positions ? context * width : 0,
      attention: of("attention"),
      ffn: of("ffn"),
      norms: (2 * layers + 1) * width * (shape.norm_biases ? 2 : 1),
      head: shape.tied ? 0 : vocabulary * width,
    };
  }
  const parameterCount = (shape) => sum(Object.values(parameterParts(shape)));

  // Bytes that autograd saves for one layer in fp32.
  function activationBytes(batch, tokens, width, heads, flash = false) {
    const rows = batch * heads * tokens;
    return 64 * batch * tokens * width + 16 * batch * tokens + (flash ? 4 * rows : 4 * rows * tokens + tokens ** 2);
  }

  // 1. Training time

  function trainingTime(inputs) {
    const parameters = count("parameters", inputs.parameters), tokens = count("tokens", inputs.tokens), gpus = count("gpus", inputs.gpus);
    const { gpu, mfu, dollars_per_hour } = inputs;
    const flops = 6 * parameters * tokens;
    const secondsOn = (name) => flops / (gpus * peakOf(name, "bf16") * mfu);
    const seconds = secondsOn(gpu), dollars = seconds / 3600 * gpus * dollars_per_hour, hours = seconds / 3600 * gpus;
    return {
      words: [
        `${duration(seconds)}, ${dollarsOf(dollars)}`,
        `6 × ${shortCount(parameters)} parameters × ${shortCount(tokens)} tokens = ${general(flops, 4)} FLOPs.`,
        `${shortCount(gpus)} × ${shortName(gpu)} at ${general(mfu, 3)} of ${prefixed(peakOf(gpu, "bf16"), "FLOP/s", 4)} each, bf16, dense.`,
        `${shortCount(hours)} GPU-hours. Tokens for each parameter: ${grouped(general(tokens / parameters, 4))}.`,
      ],
      gpu,
      gpus,
      secondsByGpu: Object.keys(DATA.processors).filter((name) => "bf16" in DATA.processors[name].flops).map((name) => [name, secondsOn(name)]),
    };
  }

  // 2. Storage

  function sizesOf(typed) {
    let text = typed.trim().replace(/^torch\.Size/, "").trim();
    if (["()", "[]", "([", "])"].includes(text.slice(0, 1) + text.slice(-1))) text = text.slice(1, -1).replace(/^[[\]]+|[[\]]+$/g, "");
    const parts = text.trim().replace(/,+$/, "").split(/\s*[,×x]\s*|\s+/).filter(Boolean);
    if (parts.length > DATA.mostAxes) refuse(`${parts.length} axes are more than the ${DATA.mostAxes} that are drawn here: write fewer`);
    try {
      return parts.map((part, axis) => BigInt(count(`shape[${axis}]`, part)));
    } catch (error) {
      throw error instanceof Refused ? new Refused(`a shape has whole sizes, such as 4, 6: ${error.message}`) : error;
    }
  }
  const product = (sizes) => sizes.reduce((all, each) => all * each, 1n);
  const tuple = (sizes) => `(${sizes.join(", ")}${sizes.length === 1 ? "," : ""})`;

  function storage({ shape, dtype, transposed, start, step }) {
    const sizes = sizesOf(shape), itemsize = BigInt(DATA.dtypeBytes[dtype]);
    if (product(sizes) > (1n << 63n) - 1n) refuse(`shape ${tuple(sizes)} has more elements than 64 bits can count: make an axis smaller`);
    const view = [...sizes], stride = sizes.map((_, axis) => product(sizes.slice(axis + 1))), last = sizes.length - 1;
    let code = `torch.empty(${tuple(sizes)}, dtype=torch.${dtype})`, offset = 0n;
    if (transposed) {
      if (last < 1) refuse(`shape ${tuple(sizes)} has ${sizes.length} axes, and to transpose takes two: write 4, 6`);
      for (const list of [view, stride]) [list[last - 1], list[last]] = [list[last], list[last - 1]];
      code += ".mT";
    }
    if (start !== 0 || step !== 1) {
      if (last < 0) refuse("a scalar has no axis to slice: set start to 0 and step to 1, or write a shape");
      const from = BigInt(start), by = BigInt(step);
      if (from >= view[last]) refuse(`start=${start} leaves nothing of an axis of ${view[last]}: start at ${view[last] - 1n} or before`);
      offset = from * stride[last];
      view[last] = (view[last] - from + by - 1n) / by;
      stride[last] *= by;
      code += `[..., ${start}::${step}]`;
    }
    let contiguous = true, expected = 1n;
    for (let axis = last; axis >= 0; axis--) {
      if (view[axis] > 1n && stride[axis] !== expected) contiguous = false;
      expected *= view[axis];
    }
    const elements = product(view), stored = product(sizes), nominal = whole(elements * itemsize);
    const kept = elements < stored ? `${whole(elements)} of ${whole(stored)} stored elements` : "all elements";
    return {
      words: [
        `shape ${tuple(view)}, stride ${tuple(stride)}, offset ${offset}`,
        `${whole(elements)} × ${itemsize} B = ${nominal} B nominal, ${whole(stored * itemsize)} B in the storage: the view reads ${kept}.`,
        contiguous ? "Contiguous: view(-1) works, and nothing is copied."
          : `Not contiguous: contiguous() would copy, and make a storage of its own of ${nominal} B.`,
        `In torch: ${code}`,
      ],
      view: view.map(Number),
      stride: stride.map(Number),
      offset: Number(offset),
      stored: Number(stored),
    };
  }

  // 3. Number formats: a number is a fraction of BigInts, {top, bottom}, or Infinity, -Infinity, NaN

  const power2 = (power) => (power >= 0 ? { top: 1n << BigInt(power), bottom: 1n } : { top: 1n, bottom: 1n << BigInt(-power) });
  const times = (a, b) => ({ top: a.top * b.top, bottom: a.bottom * b.bottom });
  const isFraction = (value) => typeof value === "object";
  const negated = (value) => (isFraction(value) ? { top: -value.top, bottom: value.bottom } : -value);
  const compare = (a, b) => { const gap = a.top * b.bottom - b.top * a.bottom; return gap > 0n ? 1 : gap < 0n ? -1 : 0; };
  const bitLength = (value) => value.toString(2).length;
  const bias = (form) => 2 ** (form.exponent - 1) - 1;
  const lastCode = (form) => (1n << BigInt(form.exponent + form.mantissa)) - (form.infinities ? (1n << BigInt(form.mantissa)) + 1n : 2n);

  function typedNumber(typed) {
    let text = typed.trim().toLowerCase().replaceAll("−", "-");
    const sign = text.startsWith("-") ? -1n : 1n;
    if (/^[+-]?(inf|infinity|∞)$/.test(text)) return sign < 0n ? -Infinity : Infinity;
    if (text === "nan") return NaN;
    let found = /^([+-]?)(\d{1,40})\s*\/\s*(\d{1,40})$/.exec(text);
    if (found && BigInt(found[3])) return { top: sign * BigInt(found[2]), bottom: BigInt(found[3]) };
    found = /^[+-]?(?:(\d+)\.?(\d*)|\.(\d+))(?:e([+-]?\d{1,4}))?$/.exec(text.replaceAll("_", ""));
    if (!found || text.length > 100) refuse(`${quoted(typed)} is no number: write 0.1, 1e-8, 1/3, inf or nan`);
    const power = Number(found[4] ?? 0), after = found[2] ?? found[3];
    if (Math.abs(power) > 400) refuse(`${quoted(typed)} is beyond every format here: keep powers of ten between -400 and 400`);
    const digits = sign * BigInt((found[1] ?? "") + after), scale = power - after.length;
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
  // By way of fp64 and fp32, as torch does.
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
    const size = value.top < 0n ? negated(value) : value, code = nearest(size, DATA.formats.fp64, false);
    const bits = new DataView(new ArrayBuffer(8));
    bits.setBigUint64(0, code);
    return value.top < 0n ? -bits.getFloat64(0) : bits.getFloat64(0);
  }
  const stripped = ({ digits, scale }) => { // without zeros at the end
    while (digits && digits % 10n === 0n) { digits /= 10n; scale -= 1; }
    return digits ? { digits, scale } : { digits, scale: 0 };
  };
  function decimal(value) {
    if (!isFraction(value)) return general(value, 1);
    const double = toDouble(value), number = stripped(exactly(Math.abs(double))), text = number.digits.toString();
    if (text.length > 20) return `${general(double, 17)}…`;
    const power = leading(number), sign = double < 0 ? "-" : "";
    if (power >= -6 && power < 16) return sign + plain(number);
    return `${sign}${text[0]}${text.length > 1 ? "." : ""}${text.slice(1)}e${power < 0 ? "" : "+"}${power}`;
  }
  // Three digits as Python's Decimal writes them: 28 digits of the quotient, zeros at the end of an inexact one kept.
  function scientific({ top, bottom }) {
    const sign = top < 0n ? "-" : "", size = top < 0n ? -top : top;
    const scale = 30 - (size.toString().length - bottom.toString().length);
    const shifted = scale >= 0 ? [size * 10n ** BigInt(scale), bottom] : [size, bottom * 10n ** BigInt(-scale)];
    let number = { digits: shifted[0] / shifted[1], scale };
    if (shifted[0] % shifted[1] === 0n && stripped(number).digits.toString().length <= 28) {
      number = stripped(number);
      if (number.scale < 0) number = toPlaces(number, 0);
    }
    if (number.digits.toString().length > 3) number = toDigits(number, 3);
    const text = number.digits.toString(), left = text.length - number.scale;
    if (number.scale >= 0 && left > -6) return sign + plain(number);
    return `${sign}${text[0]}${text.length > 1 ? "." : ""}${text.slice(1)}e${left - 1 < 0 ? "-" : "+"}${Math.abs(left - 1)}`;
  }

  function numberIn({ typed, form: name }) {
    const form = DATA.formats[name], exact = typedNumber(typed), width = form.exponent + form.mantissa, text = typed.trim();
    const zero = isFraction(exact) && exact.top === 0n;
    let negative = isFraction(exact) ? exact.top < 0n || (zero && text.startsWith("-")) : exact < 0;
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
      let relative = { top: error.top * exact.bottom * 100n, bottom: error.bottom * exact.top };
      if (relative.bottom < 0n) relative = { top: -relative.top, bottom: -relative.bottom };
      if (relative.top < 0n) relative = negated(relative);
      let words = `Error ${scientific(error)}, ${scientific(relative)} % of the number.`;
      if (kind === "zero") words += " It is gone: underflow.";
      const last = decoded(lastCode(form), form), before = decoded(lastCode(form) - 1n, form);
      const edge = { top: 3n * last.top * before.bottom - before.top * last.bottom, bottom: 2n * last.bottom * before.bottom };
      const size = exact.top < 0n ? negated(exact) : exact;
      if (!form.infinities && compare(size, edge) > 0) words += " Overflow without an infinity: held at the largest number (before torch 2.13: nan).";
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
        `In training: ${DATA.inTraining[name]}.`,
      ],
      bits,
      exponent: form.exponent,
      near: [below, stored, above].map(decimal),
    };
  }

  // 4. Matmul

  function matmul(inputs) {
    const m = count("m", inputs.m), k = count("k", inputs.k), n = count("n", inputs.n);
    const { gpu, precision } = inputs;
    const of = (processor, each) => {
      const peak = peakOf(processor, each), bandwidth = DATA.processors[processor].bandwidth, flops = 2 * m * k * n;
      const bytes = (m * k + k * n + m * n) * DATA.dtypeBytes[DATA.storedAs[each]], intensity = flops / bytes;
      const attainable = Math.min(peak, intensity * bandwidth);
      return { peak, bandwidth, flops, bytes, intensity, ridge: peak / bandwidth, attainable, seconds: flops / attainable };
    };
    const here = of(gpu, precision);
    const elsewhere = DATA.compared.map((processor) =>
      `${shortName(processor)} ${["fp32", "bf16"].map((each) => `${duration(of(processor, each).seconds)} in ${each}`).join(", ")}`);
    const [M, K, N] = [m, k, n].map(shortCount);
    return {
      words: [
        `${duration(here.seconds)} at best, bound by ${here.intensity < here.ridge ? "memory" : "arithmetic"}`,
        `(${M}, ${K}) @ (${K}, ${N}): 2 m k n = ${general(here.flops, 4)} FLOPs, and ${byteSize(here.bytes)} moved at the least.`,
        `${grouped(general(here.intensity, 4))} FLOPs for each byte; ${shortName(gpu)} in ${precision} needs ${grouped(general(here.ridge, 4))} to be busy.`,
        `At most ${prefixed(here.attainable, "FLOP/s", 4)}, ${general(100 * here.attainable / here.peak, 3)} % of the peak.`,
        `The same product elsewhere, at best: ${elsewhere.join("; ")}.`,
      ],
      roofs: Object.entries(DATA.processors[gpu].flops),
      precision,
      ...here,
    };
  }

  // 5. Parameter shares

  const SIZES = ["layers", "width", "heads", "kv_heads", "ffn", "vocabulary", "context"];

  function parameters(inputs) {
    const shape = { gated: inputs.gated, tied: inputs.tied, learned_positions: inputs.positions, biases: inputs.biases, norm_biases: inputs.biases };
    for (const name of SIZES) shape[name] = count(name, inputs[name]);
    const parts = parameterParts(shape), total = sum(Object.values(parts)), names = Object.keys(parts);
    const largest = names.reduce((best, name) => (parts[name] > parts[best] ? name : best));
    const known = Object.entries(DATA.models).map(([name, model]) => [name, parameterParts(model)]);
    const same = known.filter(([, own]) => names.every((name) => own[name] === parts[name])).map(([name]) => name).join(", ");
    const head = `A head is ${shape.width / shape.heads} wide`;
    return {
      words: [
        `${total < 1e15 ? whole(total) : general(total, 4)} parameters`,
        `The largest part is ${largest}: ${percent(parts[largest], total)}. Embedding matrix and LM head together: `
          + `${percent(parts.embedding + parts.head, total)}.${same ? ` That is ${same}, to the last one.` : ""}`,
        shape.heads === shape.kv_heads ? `${head}. More heads cost nothing while each has keys of its own.`
          : `${head}; ${shape.heads} query heads share ${shape.kv_heads} of keys and values.`,
      ],
      bars: [["yours", parts], ...known],
    };
  }

  // Where a slider for the width, the heads or their kv_heads stops: the size nearest to `number` that goes with `sizes`.
  function sliderStop(name, number, sizes) {
    const partner = { width: "heads", heads: "width", kv_heads: "heads" }[name];
    let other;
    try { other = count(partner, sizes[partner]); } catch { return number; }
    if (name === "width") return other * Math.max(1, roundEven(number / other));
    const [below, above = below] = divisorsAround(other, number);
    return Math.abs(above - number) < Math.abs(below - number) ? above : below;
  }
  const roundEven = (value) => Number(plain(toPlaces(exactly(value), 0)));

  function keysThatFollow(heads, keys, before) {
    try {
      [heads, keys, before] = [count("heads", heads), count("kv_heads", keys), count("heads", before)];
    } catch { return null; }
    return keys === before ? heads : sliderStop("kv_heads", keys, { heads });
  }

  // 6. Memory budget

  function memory(inputs) {
    const { model, recipe, stage, gpu, recompute } = inputs;
    const gpus = count("gpus", inputs.gpus), batch = count("batch", inputs.batch), tokens = count("tokens", inputs.tokens);
    const shape = DATA.models[model], size = parameterCount(shape), values = tokens * batch * shape.width;
    const layer = (how) => {
      if (DATA.sixteenBits.includes(recipe)) {
        if (how === "full") return 2 * values;
        return 34 * values + (how === "none" ? 5 * shape.heads * tokens ** 2 * batch : 0);
      }
      return how === "full" ? 4 * values : activationBytes(batch, tokens, shape.width, shape.heads, how === "selective");
    };
    const activations = shape.layers * layer(recompute) + (recompute === "full" ? layer("none") : 0);
    const shard = Math.ceil(size / gpus);
    const byStage = [0, 1, 2, 3].map((each) => {
      const parts = { weights: 0, gradients: 0, "optimizer state": 0 };
      for (const [part, bytes] of Object.entries(DATA.recipes[recipe])) {
        const into = part === "weights" || part === "bf16 copies" ? "weights" : part === "gradients" ? part : "optimizer state";
        parts[into] += bytes * (each >= (DATA.shardedFrom[part] ?? 1) ? shard : size);
      }
      return { ...parts, activations, logits: DATA.logits * 4 * batch * tokens * shape.vocabulary };
    });
    const totals = byStage.map((parts) => sum(Object.values(parts))), limit = DATA.memory[gpu];
    const parts = byStage[stage], total = totals[stage], fits = total <= limit;
    const state = parts.weights + parts.gradients + parts["optimizer state"];
    const stages = [0, 1, 2, 3].filter((each) => totals[each] <= limit);
    function advice() {
      if (fits) {
        const least = stages[0] ? `ZeRO stage ${stages[0]} is the lowest that fits` : "It fits without ZeRO";
        return `${least}; ${percent(state, total)} of it is weights, gradients and optimizer state.`;
      }
      if (stages.length) return `ZeRO stage ${stages[0]} would fit.`;
      if (total - state > limit) return "No stage helps: the activations alone are too much. Recompute more, or take fewer or shorter sequences.";
      return "No stage is enough: take more GPUs, recompute more, or take fewer or shorter sequences.";
    }
    const card = `${byteSize(limit)} of one ${shortName(gpu)}`, gap = byteSize(Math.abs(limit - total));
    const split = Object.entries(parts).map(([part, bytes]) => `${part} ${byteSize(bytes)}`).join(", ");
    return {
      words: [
        `${byteSize(total)} on each GPU: ${fits ? `fits into the ${card}, ${gap} to spare` : `does not fit into the ${card}: ${gap} too much`}`,
        `${split[0].toUpperCase()}${split.slice(1)}.`,
        advice(),
        "Activations are a GPT's, also for a LLaMA. Left out: other temporaries, communication buffers, what the allocator wastes.",
      ],
      byStage,
      stage,
      limit,
      card: `${shortName(gpu)}: ${byteSize(limit)}`,
    };
  }

  // 7. N against D

  function scaling(inputs) {
    const gpus = count("gpus", inputs.gpus), own = count("parameters", inputs.parameters), days = amount("days", inputs.days);
    const ratio = amount("tokens_per_parameter", inputs.tokens_per_parameter);
    const seconds = positive("seconds", days * DAY);
    const flops = gpus * peakOf(inputs.gpu, "bf16") * inputs.mfu * seconds;
    const size = Math.sqrt(flops / (6 * positive("tokens_per_parameter", ratio))), data = ratio * size;
    const tokens = flops / (6 * own), each = tokens / own, more = each / ratio;
    const factor = grouped(general(Math.max(more, 1 / more), 3));
    return {
      words: [
        `compute-optimal: ${shortCount(size)} parameters on ${shortCount(data)} tokens`,
        `${shortCount(gpus)} × ${shortName(inputs.gpu)} for ${duration(seconds)} do ${general(flops, 4)} FLOPs, all runs on the line.`,
        `Your ${shortCount(own)} parameters could see ${shortCount(tokens)} tokens, ${grouped(general(each, 4))} for each: `
          + `${factor === "1" ? "about as many as" : `${factor} times ${more > 1 ? "more" : "less"} than`} ${general(ratio, 6)}.`,
      ],
      flops,
      ratio,
      best: [size, data],
      yours: [own, tokens],
    };
  }

  // 8. Memory over a step

  function stepMemory(inputs) {
    const { model, optimizer, checkpointing, step } = inputs;
    const batch = count("batch", inputs.batch), tokens = count("tokens", inputs.tokens);
    const shape = DATA.models[model], weights = 4 * parameterCount(shape), every = checkpointing === "every layer";
    const positions = shape.learned_positions ? shape.context : 0, roots = optimizer === "AdamW" ? weights : 0;
    const ofALayer = Math.floor((weights - 4 * (shape.vocabulary + positions) * shape.width) / shape.layers);
    const state = DATA.optimizerState[optimizer] * weights / 4, head = weights - shape.layers * ofALayer;
    const all = activationBytes(batch, tokens, shape.width, shape.heads), kept = every ? 4 * batch * tokens * shape.width : all;
    const momentsOf = (later) => {
      const moment = (when, layers, gradients, extra, hasState) =>
        [when, { weights, gradients, "optimizer state": hasState ? state : 0, "activations, temporaries": layers * kept + extra }];
      const moments = [moment("start", 0, 0, 0, later)];
      for (let n = 1; n <= shape.layers; n++) moments.push(moment(`forward of layer ${n}`, n, 0, 0, later));
      moments.push(moment("loss", shape.layers, 0, DATA.logits * 4 * batch * tokens * shape.vocabulary, later));
      for (let n = shape.layers; n > 0; n--) {
        moments.push(moment(`backward of layer ${n}`, n, head + (shape.layers - n + 1) * ofALayer, every ? all : 0, later));
      }
      return [...moments, moment("update", 0, weights, roots, true)];
    };
    const totalOf = ([, parts]) => sum(Object.values(parts));
    const peakOfStep = (moments) => moments.reduce((best, each) => (totalOf(each) > totalOf(best) ? each : best));
    const moments = momentsOf(step === "second"), peak = peakOfStep(moments);
    const other = moments[0][1]["optimizer state"] > 0 || DATA.optimizerState[optimizer] === 0 ? "first" : "second";
    const split = Object.entries(peak[1]).filter(([, bytes]) => bytes).map(([part, bytes]) => `${part} ${byteSize(bytes)}`).join(", ");
    return {
      words: [
        `${byteSize(totalOf(peak))} at the peak, at the ${peak[0]}`,
        `${split}.`,
        `The ${other} step peaks at ${byteSize(totalOf(peakOfStep(momentsOf(step === "first"))))}.`,
      ],
      moments,
      peak: `${byteSize(totalOf(peak))}, ${peak[0]}`,
    };
  }

  // 9. Buckets that overlap backward

  function overlap(inputs) {
    const parameters = count("parameters", inputs.parameters), ranks = count("ranks", inputs.ranks);
    const backward = amount("backward_ms", inputs.backward_ms) / 1e3, bucket = amount("bucket_mb", inputs.bucket_mb) * 1e6;
    const bandwidth = amount("gigabytes_per_second", inputs.gigabytes_per_second) * 1e9;
    for (const [name, value] of Object.entries({ backward_ms: backward, bucket_mb: bucket, gigabytes_per_second: bandwidth })) {
      if (value <= 0) refuse(`${name} must be above zero: give 1 or more`);
    }
    const total = 4 * parameters, number = Math.ceil(total / bucket);
    if (number > 10000) refuse(`bucket_mb=${inputs.bucket_mb} makes ${whole(number)} buckets, more than 10,000: give a larger one`);
    const allReduce = (bytes) => 2 * (ranks - 1) * (bytes / ranks / bandwidth + DATA.latency);
    const buckets = [];
    let free = 0;
    for (let n = 0; n < number; n++) {
      const sent = Math.min((n + 1) * bucket, total), ready = backward * sent / total, begins = Math.max(ready, free);
      free = begins + allReduce(sent - n * bucket);
      buckets.push([begins, free]);
    }
    const atOnce = backward + allReduce(total), end = Math.max(backward, free);
    const busy = sum(buckets.map(([begins, ends]) => ends - begins)), waits = end - backward, hidden = busy ? 1 - waits / busy : 1;
    const ms = (seconds) => `${fixed(1e3 * seconds, 1)} ms`;
    return {
      words: [
        `${ms(end)}, of which ${ms(waits)} wait for the network`,
        `Backward takes ${ms(backward)}, ${whole(number)} all-reduces take ${ms(busy)}; ${fixed(100 * hidden, 0)} % of that is hidden.`,
        `One all-reduce after backward would end at ${ms(atOnce)}.`,
      ],
      backward,
      buckets,
      atOnce,
    };
  }

  // 10. The learning rate over a run

  function schedule(inputs) {
    const { shape, last } = inputs;
    const peak = amount("peak", inputs.peak), steps = count("steps", inputs.steps), warmup = amount("warmup", inputs.warmup);
    if (peak <= 0) refuse(`peak=${shown(inputs.peak)} is no learning rate: give one above zero, such as 3e-4`);
    if (!Number.isInteger(warmup) || warmup < 0 || warmup >= steps) {
      refuse(`warmup=${warmup} of ${whole(steps)} steps: give a whole number from 0 to ${whole(steps - 1)}`);
    }
    if (steps > 1e6) refuse(`steps=${whole(steps)} are more than a million: the picture is the same with fewer`);
    const factor = (step) => {
      let done = (step - warmup) / (steps - warmup);
      if (shape === "constant") return 1;
      if (shape === "cosine") return last + (1 - last) * (1 + Math.cos(Math.PI * done)) / 2;
      if (shape === "constant, then down" && warmup <= (1 - DATA.decay) * steps) {
        done = Math.max(0, (step - (1 - DATA.decay) * steps) / (DATA.decay * steps));
      }
      return 1 - (1 - last) * done;
    };
    const rates = Array.from({ length: steps }, (_, step) => peak * (step < warmup ? (step + 1) / warmup : factor(step)));
    const mean = sum(rates) / steps;
    return {
      words: [
        `from ${general(rates[0], 3)} to ${general(peak, 3)}, and ${general(rates[steps - 1], 3)} at the last of ${whole(steps)} steps`,
        `Half way it is ${general(rates[Math.floor(steps / 2)], 3)}; the mean is ${fixed(100 * mean / peak, 0)} % of the peak.`,
        `${general(100 * warmup / steps, 3)} % of the steps are warm-up.`,
      ],
      rates,
      warmup,
    };
  }

  const ANSWERS = {
    "training-time": trainingTime, "storage-layout": storage, dtypes: numberIn, matmul, "parameter-shares": parameters,
    "memory-budget": memory, "n-against-d": scaling, "step-memory": stepMemory, overlap, schedule,
  };

  // {words, …} for a picture; where there is no answer, the reason in words alone.
  function answer(name, inputs) {
    try {
      return ANSWERS[name](inputs);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return { words: [`No answer: ${error.message}`], refused: true };
    }
  }

  globalThis.courseCalculators = { answer, amount, byteSize, duration, general, keysThatFollow, shortCount, sliderStop, whole };
})();
