// Memory for training a known model on each of some GPUs, data-parallel. Activations are those of a GPT's layer, by two
// laws: Korthikanti's in 16 bits, a count of the tensors that autograd saves in fp32.

const STAGES = ["no ZeRO", "stage 1", "stage 2", "stage 3"];
const RECOMPUTED = ["none", "selective", "full"]; // selective: no scores of attention are kept; full: a layer's input alone
const SIXTEEN_BITS = ["mixed adamw", "autocast", "pure bf16"]; // recipes whose activations have 16 bits
const training = (model, recipe, stage, gpu, gpus, batch, tokens, recompute) =>
  ({ model, recipe, stage: STAGES[stage], gpu, gpus: whole(gpus), batch: whole(batch), tokens: whole(tokens), recompute });

function activationsOf(shape, recipe, batch, tokens, recompute) {
  const values = tokens * batch * shape.width;
  const layer = (how) => {
    if (SIXTEEN_BITS.includes(recipe)) {
      if (how === "full") return 2 * values;
      return 34 * values + (how === "none" ? 5 * shape.heads * tokens ** 2 * batch : 0);
    }
    return how === "full" ? 4 * values : activationBytes(batch, tokens, shape.width, shape.heads, how === "selective");
  };
  return shape.layers * layer(recompute) + (recompute === "full" ? layer("none") : 0); // one layer whole, while it is recomputed
}
function stateOf(size, recipe, gpus, stage) {
  const parts = { weights: 0, gradients: 0, "optimizer state": 0 }, shard = Math.ceil(size / gpus);
  for (const [part, bytes] of Object.entries(DATA.recipes[recipe])) {
    const into = part === "weights" || part === "bf16 copies" ? "weights" : part === "gradients" ? part : "optimizer state";
    parts[into] += bytes * (stage >= (DATA.shardedFrom[part] ?? 1) ? shard : size);
  }
  return parts;
}

CALCULATORS["memory-budget"] = {
  title: "Does the training fit?",
  inputs: [
    choice("model", "model", Object.keys(DATA.models)),
    choice("recipe", "precision and optimizer", Object.keys(DATA.recipes)),
    choice("stage", "ZeRO", STAGES),
    choice("gpu", "GPU", PROCESSORS),
    count("gpus", "number of GPUs", 0, 17, 2),
    count("batch", "sequences on each GPU", 0, 10, 2),
    count("tokens", "tokens in each", 6, 17, 2),
    choice("recompute", "recomputed", RECOMPUTED),
  ],
  presets: {
    "LLaMA-3 8B on 8 H100s": training("LLaMA-3 8B", "mixed adamw", 1, "H100", 8, 1, 8192, "selective"),
    "and all of it sharded": training("LLaMA-3 8B", "mixed adamw", 3, "H100", 8, 1, 8192, "selective"),
    "LLaMA-3 70B on 1,024 H100s": training("LLaMA-3 70B", "mixed adamw", 3, "H100", 1024, 1, 8192, "full"),
    "LLaMA-2 7B in fp32 on an A100": training("LLaMA-2 7B", "fp32 adamw", 0, "A100", 1, 1, 2048, "none"),
    "GPT-2 on an RTX 4090": training("GPT-2", "autocast", 0, "RTX 4090", 1, 8, 1024, "selective"),
    "GPT-2 on an RTX 4060 of 8 GB": training("GPT-2", "autocast", 0, "RTX 4060", 1, 8, 1024, "selective"),
    "GPT-3 on one H200": training("GPT-3 175B", "mixed adamw", 0, "H200", 1, 1, 2048, "full"),
  },

  answer({ model, recipe, stage: stageName, gpu, gpus, batch, tokens, recompute }) {
    const shape = DATA.models[model], size = parameterCount(shape), stage = STAGES.indexOf(stageName);
    const activations = activationsOf(shape, recipe, batch, tokens, recompute), logits = LOGITS * 4 * batch * tokens * shape.vocabulary;
    const byStage = [0, 1, 2, 3].map((each) => ({ ...stateOf(size, recipe, gpus, each), activations, logits }));
    const totals = byStage.map(total), limit = DATA.processors[gpu].memory, all = totals[stage], fits = all <= limit;
    const state = all - activations - logits, stages = [0, 1, 2, 3].filter((each) => totals[each] <= limit);
    function advice() {
      if (fits) {
        const least = stages[0] ? `ZeRO stage ${stages[0]} is the lowest that fits` : "It fits without ZeRO";
        return `${least}; ${percent(state, all)} of it is weights, gradients and optimizer state.`;
      }
      if (stages.length) return `ZeRO stage ${stages[0]} would fit.`;
      if (all - state > limit) return "No stage helps: the activations alone are too much. Recompute more, or take fewer or shorter sequences.";
      return "No stage is enough: take more GPUs, recompute more, or take fewer or shorter sequences.";
    }
    const card = `${byteSize(limit)} of one ${gpu}`, gap = byteSize(Math.abs(limit - all));
    const split = Object.entries(byStage[stage]).map(([part, bytes]) => `${part} ${byteSize(bytes)}`).join(", ");
    return {
      words: [
        `${byteSize(all)} on each GPU: ${fits ? `fits into the ${card}, ${gap} to spare` : `does not fit into the ${card}: ${gap} too much`}`,
        `${split[0].toUpperCase()}${split.slice(1)}.`,
        advice(),
        "Activations are a GPT's, also for a LLaMA. Left out: other temporaries, communication buffers, what the allocator wastes.",
      ],
      byStage,
      stage,
      limit,
      card: `${gpu}: ${byteSize(limit)}`,
    };
  },

  picture({ byStage, stage, limit, card }, width) {
    const rows = byStage.map((parts, each) => [each ? `ZeRO stage ${each}` : "no ZeRO", parts, byteSize(total(parts))]);
    return stackedBars(width, rows, DATA.colours.memory, { chosen: stage, limit, limitLabel: card });
  },
};
