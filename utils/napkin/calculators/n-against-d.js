// A budget of FLOPs divided between parameters and tokens: by a fixed number of tokens for each parameter, and for a model
// of one's own.

const budget = (gpu, gpus, days, mfu, ratio, model) =>
  ({ gpu, gpus: whole(gpus), days, mfu, tokens_per_parameter: ratio, parameters: sizeOf(model) });
const GPT3 = [parameterCount(DATA.models["GPT-3 175B"]), DATA.gpt3Tokens];

CALCULATORS["n-against-d"] = {
  title: "How large a model, on how many tokens?",
  inputs: [
    choice("gpu", "GPU", WITH_BF16),
    count("gpus", "number of GPUs", 0, 17, 2),
    amount("days", "days", -1, 4),
    slide("mfu", "MFU", 0.01, 1, 0.01),
    amount("tokens_per_parameter", "tokens a parameter", -1, 5),
    count("parameters", "your parameters", 6, 13),
  ],
  presets: {
    "32 H100s for two weeks": budget("H100", 32, "14", 0.5, "20", "LLaMA-3 8B"),
    "1,024 H100s for 90 days": budget("H100", 1024, "90", 0.4, "20", "LLaMA-3 70B"),
    "one RTX 4090 for a weekend": budget("RTX 4090", 1, "2", 0.4, "20", "GPT-2"),
    "as many tokens as LLaMA-3 8B saw": budget("H100", 1024, "16.5", 0.5, "1,868", "LLaMA-3 8B"),
  },

  answer({ gpu, gpus, days, mfu, tokens_per_parameter: ratio, parameters: own }) {
    const seconds = days * DAY, flops = gpus * peakOf(gpu, "bf16") * mfu * seconds;
    const size = Math.sqrt(flops / (6 * ratio)), data = ratio * size;
    const tokens = flops / (6 * own), each = tokens / own, more = each / ratio;
    const factor = grouped(general(Math.max(more, 1 / more), 3));
    return {
      words: [
        `compute-optimal: ${shortCount(size)} parameters on ${shortCount(data)} tokens`,
        `${shortCount(gpus)} × ${gpu} for ${duration(seconds)} do ${general(flops, 4)} FLOPs, all runs on the line.`,
        `Your ${shortCount(own)} parameters could see ${shortCount(tokens)} tokens, ${grouped(general(each, 4))} for each: `
          + `${factor === "1" ? "about as many as" : `${factor} times ${more > 1 ? "more" : "less"} than`} ${general(ratio, 6)}.`,
      ],
      flops,
      ratio,
      best: [size, data],
      yours: [own, tokens],
    };
  },

  picture({ flops, ratio, best, yours }, width) {
    const points = [best, yours, GPT3], [xs, ys] = [0, 1].map((axis) => points.map((each) => each[axis]));
    const x = [Math.min(...xs) / 10, Math.max(...xs) * 10], y = [Math.min(...ys) / 20, Math.max(...ys) * 20];
    const within = (curve, back) => [Math.max(x[0], Math.min(...y.map(back))), Math.min(x[1], Math.max(...y.map(back)))].map((n) => [n, curve(n)]);
    const name = (word, [n, d]) => `${word}: ${shortCount(n)} × ${shortCount(d)}`;
    return logPlot(width, {
      x, y, across: "parameters", up: `tokens (dotted: ${general(ratio, 4)} a parameter)`,
      lines: [[within((n) => flops / 6 / n, (d) => flops / 6 / d), "best"], [within((n) => ratio * n, (d) => d / ratio), "rule"]],
      points: [[...GPT3, "GPT-3", "known"], [...best, name("best", best), "best"], [...yours, name("yours", yours), "yours"]],
    });
  },
};
