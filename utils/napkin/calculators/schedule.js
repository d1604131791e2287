// The learning rate of each step: linear warm-up, whose last step has the peak; then down to a share of it, which the step
// after the last one would have.

const SHAPES = ["cosine", "linear", "constant", "constant, then down"];
const DECAY = 0.2; // share of the steps in which "constant, then down" falls
const MOST_STEPS = 1e6;
const rates = (shape, peak, steps, warmup, last) => ({ shape, peak, steps: whole(steps), warmup: whole(warmup), last });

function factorAt(step, shape, steps, warmup, last) {
  if (step < warmup) return (step + 1) / warmup;
  if (shape === "constant") return 1;
  let done = (step - warmup) / (steps - warmup);
  if (shape === "cosine") return last + (1 - last) * (1 + Math.cos(Math.PI * done)) / 2;
  if (shape === "constant, then down" && warmup <= (1 - DECAY) * steps) {
    done = Math.max(0, (step - (1 - DECAY) * steps) / (DECAY * steps));
  }
  return 1 - (1 - last) * done;
}

CALCULATORS.schedule = {
  title: "What is the learning rate at each step?",
  inputs: [
    choice("shape", "after the warm-up", SHAPES),
    amount("peak", "peak", -6, 0),
    count("steps", "steps", 2, 6),
    typed("warmup", "warm-up steps"),
    slide("last", "at the end, of the peak", 0, 1, 0.01),
  ],
  presets: {
    "warm-up, then cosine to a tenth": rates("cosine", "3e-4", 10000, 500, 0.1),
    "linear to zero": rates("linear", "3e-4", 10000, 500, 0),
    "constant after the warm-up": rates("constant", "3e-4", 10000, 500, 1),
    "constant, down in the last fifth": rates("constant, then down", "3e-4", 10000, 500, 0),
    "cosine without warm-up": rates("cosine", "3e-4", 10000, 0, 0),
  },

  answer({ shape, peak, steps, warmup: text, last }) {
    const warmup = readAmount("warm-up steps", text);
    if (!Number.isInteger(warmup) || warmup < 0 || warmup >= steps) {
      refuse(`${quoted(text)} warm-up steps of ${whole(steps)}: give a whole number from 0 to ${whole(steps - 1)}.`);
    }
    if (steps > MOST_STEPS) refuse(`${whole(steps)} steps are more than a million. The picture is the same with fewer.`);
    const rates = Array.from({ length: steps }, (_, step) => peak * factorAt(step, shape, steps, warmup, last));
    const mean = sum(rates) / steps;
    return {
      words: [
        `from ${general(rates[0], 3)} to ${general(peak, 3)}, and ${general(rates[steps - 1], 3)} at the last of ${whole(steps)} steps`,
        `Half way it is ${general(rates[Math.floor(steps / 2)], 3)}; the mean is ${fixed(100 * mean / peak, 0)} % of the peak.`,
        `${general(100 * warmup / steps, 3)} % of the steps are warm-up.`,
      ],
      rates,
      peak,
      warmup,
    };
  },

  picture({ rates, peak, warmup }, width) {
    const picture = new Picture(width, 220), left = 8, floor = 188, end = rates.length - 1;
    const at = (step) => left + (width - 2 * left) * step / Math.max(1, end), high = (rate) => floor - 160 * rate / peak;
    const every = Math.max(1, Math.floor(rates.length / 600)), steps = [];
    for (let step = 0; step < rates.length; step += every) steps.push(step);
    const points = [...new Set([...steps, Math.min(warmup, end), end])].sort((a, b) => a - b);
    const line = (some) => some.map((step) => [at(step), high(rates[step])]);
    picture.line([[left, floor], [width - left, floor]], "grid");
    picture.line(line(points.filter((step) => step >= warmup)), "best");
    if (warmup) picture.line(line(points.filter((step) => step <= warmup)), "warmup");
    picture.text(left, 14, `learning rate, at most ${general(peak, 3)}${warmup ? "; orange: warm-up" : ""}`);
    picture.text(left, floor + 18, "step 0");
    picture.text(width - left, floor + 18, whole(end), "end");
    return picture.svg;
  },
};
