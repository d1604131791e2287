// How long a run takes by 6 N D, at a share of the dense bf16 peak.

const run = (model, tokens, gpu, gpus, mfu, price) =>
  ({ parameters: sizeOf(model), tokens, gpu, gpus: whole(gpus), mfu, dollars_per_hour: price });
const TICKS = [[60, "minute"], [3600, "hour"], [DAY, "day"], [30 * DAY, "month"], [YEAR, "year"], [100 * YEAR, "100 years"]];
const DRAWN = 24e9; // bytes: GPUs of that much memory and more stand in the picture beside the chosen one

function dollarsOf(amount) {
  if (amount < 100) return `${fixed(amount, 2)} dollars`;
  return amount < 1e12 ? `${fixed(amount, 0)} dollars` : `${general(amount, 3)} dollars`;
}

CALCULATORS["training-time"] = {
  title: "How long does it train, and what does it cost?",
  inputs: [
    count("parameters", "parameters", 6, 13),
    count("tokens", "tokens", 6, 15),
    choice("gpu", "GPU", WITH_BF16),
    count("gpus", "number of GPUs", 0, 17, 2),
    slide("mfu", "MFU", 0.01, 1, 0.01),
    slide("dollars_per_hour", "dollars per hour", 0.1, 12, 0.05),
  ],
  presets: {
    "LLaMA-3 8B on 1,024 H100s": run("LLaMA-3 8B", "15T", "H100", 1024, 0.4, 2.5),
    "LLaMA-3 70B on 1,024 H100s": run("LLaMA-3 70B", "15T", "H100", 1024, 0.4, 2.5),
    "GPT-3 on 1,024 A100s": run("GPT-3 175B", "300B", "A100", 1024, 0.4, 1.75),
    "GPT-2 on 8 A100s": run("GPT-2", "10B", "A100", 8, 0.6, 1.75),
    "GPT-2 on an RTX 4090": run("GPT-2", "2.5B", "RTX 4090", 1, 0.4, 0.35),
  },

  answer({ parameters, tokens, gpu, gpus, mfu, dollars_per_hour }) {
    const flops = 6 * parameters * tokens, secondsOn = (name) => flops / (gpus * peakOf(name, "bf16") * mfu);
    const seconds = secondsOn(gpu), hours = seconds / 3600 * gpus, dollars = hours * dollars_per_hour;
    return {
      words: [
        `${duration(seconds)}, ${dollarsOf(dollars)}`,
        `6 × ${shortCount(parameters)} parameters × ${shortCount(tokens)} tokens = ${general(flops, 4)} FLOPs.`,
        `${shortCount(gpus)} × ${gpu} at ${general(mfu, 3)} of ${prefixed(peakOf(gpu, "bf16"), "FLOP/s", 4)} each, bf16, dense.`,
        `${shortCount(hours)} GPU-hours. Tokens for each parameter: ${grouped(general(tokens / parameters, 4))}.`,
      ],
      flops, seconds, hours, dollars, gpu,
      secondsByGpu: Object.fromEntries(WITH_BF16.map((name) => [name, secondsOn(name)])),
    };
  },

  picture({ secondsByGpu, gpu }, width) {
    const drawn = Object.entries(secondsByGpu).filter(([name]) => name === gpu || DATA.processors[name].memory >= DRAWN);
    drawn.sort(([, one], [, other]) => one - other);
    const picture = new Picture(width, drawn.length * 24 + 34), left = 76, right = 96, floor = drawn.length * 24 + 4;
    const all = drawn.map(([, seconds]) => seconds), low = Math.min(20, ...all) / 2, high = Math.max(1000 * YEAR, ...all);
    const at = logarithmic(low, high, left, width - right);
    let last = -99;
    for (const [seconds, name] of TICKS) {
      if (seconds < low || seconds > high || at(seconds) - last < 62) continue;
      last = at(seconds);
      picture.line([[last, 0], [last, floor]], "grid");
      picture.text(last, floor + 18, name, "middle");
    }
    drawn.forEach(([name, seconds], row) => {
      const kind = name === gpu ? "chosen" : "";
      picture.bar(left, row * 24 + 4, at(seconds) - left, 16, kind ? ORANGE : SKY);
      picture.text(left - 6, row * 24 + 16, name, "end", kind);
      picture.text(at(seconds) + 6, row * 24 + 16, duration(seconds), "start", kind);
    });
    return picture.svg;
  },
};
