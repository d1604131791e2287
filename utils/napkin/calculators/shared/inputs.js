// What a calculator is, and what can be set in one.
//
// CALCULATORS[name] = {
//   title: the question that it answers,
//   inputs: what can be set, made by the functions below,
//   presets: named states, name → {argument: value}, all arguments; a calculator starts in the first,
//   answer: what is set, read → {words: sentences, the result first, and what `picture` needs},
//   picture: (what `answer` returned, width in px) → SVG, as text,
//   stop (if it has one): (argument, number of its slider, what is set) → what to write into its box,
//   follow (if it has one): (what was set, what is set) → {argument: value} that a change of another takes along,
// }
const CALCULATORS = {};

// A whole number above zero, or an amount above zero, over powers of `base`: a slider and a box to type into.
const count = (name, label, low, high, base = 10) => ({ kind: "count", name, label, low, high, base });
const amount = (name, label, low, high, base = 10) => ({ kind: "amount", name, label, low, high, base });
// A number in even steps.
const slide = (name, label, low, high, step = 1) => ({ kind: "slide", name, label, low, high, step });
const choice = (name, label, options) => ({ kind: "choice", name, label, options });
const toggle = (name, label) => ({ kind: "toggle", name, label });
const typed = (name, label) => ({ kind: "typed", name, label });

function read(input, value) {
  if (input.kind === "count") return readCount(input.label, value);
  if (input.kind === "amount") return readPositive(input.label, value);
  if (input.kind === "choice" && !input.options.includes(value)) {
    refuse(`${input.label}: ${quoted(String(value))} is none of ${input.options.join(", ")}.`);
  }
  return value;
}

// The answer for what is set; where there is none, the reason in words alone.
function answerTo(name, values) {
  const calculator = CALCULATORS[name];
  try {
    return calculator.answer(Object.fromEntries(calculator.inputs.map((input) => [input.name, read(input, values[input.name])])));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return { words: [`No answer: ${error.message}`], refused: true };
  }
}

// Places of a slider of powers, and the number at each.
const stepOf = (input) => (input.base === 10 ? 0.05 : 1);
const lastPlace = (input) => Math.round((input.high - input.low) / stepOf(input));
const numberAt = (input, place) => input.base ** (input.low + place * stepOf(input));
function placeOf(input, number) {
  const power = number > 0 ? Math.log(number) / Math.log(input.base) : input.low;
  return Math.round((Math.min(Math.max(power, input.low), input.high) - input.low) / stepOf(input));
}
// A slider's number with three digits; powers of two below a million with all of them.
function written(number) {
  const exact = number < 1e6 && Number.isInteger(Math.log2(number));
  return shortCount(exact ? number : roundedTo(number, 3));
}
