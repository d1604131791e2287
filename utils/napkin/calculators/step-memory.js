// The memory of a step of a GPT in fp32, layer by layer, plain attention. The optimizer allocates its state at the end of
// the first step. AdamW updates as on a GPU by default (foreach): with one more tensor for each weight.

const STATE = { "SGD": 0, "SGD with momentum": 4, "AdamW": 8 }; // bytes of optimizer state per parameter, fp32
const GPTS = Object.keys(DATA.models).filter((name) => !DATA.models[name].gated);
const STEPS = ["the first", "the second"];
const setting = (model, batch, tokens, optimizer, checkpointing, step) =>
  ({ model, batch: whole(batch), tokens: whole(tokens), optimizer, checkpointing, step });

// What has just happened and the bytes alive then, by part, in order.
function momentsOf({ model, batch, tokens, optimizer, checkpointing }, later) {
  const shape = DATA.models[model], weights = 4 * parameterCount(shape), every = checkpointing === "every layer";
  const { embedding, positions } = parameterParts(shape), ofALayer = Math.floor((weights - 4 * (embedding + positions)) / shape.layers);
  // The gradient of the tied table begins at the LM head; that of the embedding is added to it at the very end, in a third.
  const head = weights - shape.layers * ofALayer;
  const state = STATE[optimizer] * weights / 4, roots = optimizer === "AdamW" ? weights : 0;
  const all = activationBytes(batch, tokens, shape.width, shape.heads), kept = every ? 4 * batch * tokens * shape.width : all;
  const moment = (when, layers, gradients, extra, hasState) =>
    [when, { weights, gradients, "optimizer state": hasState ? state : 0, "activations, temporaries": layers * kept + extra }];
  const moments = [moment("start", 0, 0, 0, later)];
  for (let n = 1; n <= shape.layers; n++) moments.push(moment(`forward of layer ${n}`, n, 0, 0, later));
  moments.push(moment("loss", shape.layers, 0, LOGITS * 4 * batch * tokens * shape.vocabulary, later));
  for (let n = shape.layers; n > 0; n--) {
    moments.push(moment(`backward of layer ${n}`, n, head + (shape.layers - n + 1) * ofALayer, every ? all : 0, later));
  }
  moments.push(moment("backward of the embedding", 0, weights, 8 * shape.vocabulary * shape.width, later));
  return [...moments, moment("update", 0, weights, roots, true)];
}
const peakOfStep = (moments) => moments.reduce((best, each) => (total(each[1]) > total(best[1]) ? each : best));

CALCULATORS["step-memory"] = {
  title: "How much memory does each moment of a step take?",
  inputs: [
    choice("model", "model, fp32", GPTS),
    count("batch", "sequences", 0, 8, 2),
    count("tokens", "tokens in each", 6, 13, 2),
    choice("optimizer", "optimizer", Object.keys(STATE)),
    choice("checkpointing", "checkpointing", ["none", "every layer"]),
    choice("step", "step", STEPS),
  ],
  presets: {
    "GPT-2, the second step": setting("GPT-2", 8, 1024, "AdamW", "none", "the second"),
    "GPT-2, the first step": setting("GPT-2", 8, 1024, "AdamW", "none", "the first"),
    "GPT-2, every layer checkpointed": setting("GPT-2", 8, 1024, "AdamW", "every layer", "the second"),
    "GPT-2 with plain SGD": setting("GPT-2", 8, 1024, "SGD", "none", "the second"),
    "GPT-2 XL, one sequence": setting("GPT-2 XL", 1, 1024, "AdamW", "none", "the second"),
  },

  answer(inputs) {
    const later = inputs.step === STEPS[1], moments = momentsOf(inputs, later), [when, parts] = peakOfStep(moments);
    const otherPeak = total(peakOfStep(momentsOf(inputs, !later))[1]);
    const split = Object.entries(parts).filter(([, bytes]) => bytes).map(([part, bytes]) => `${part} ${byteSize(bytes)}`).join(", ");
    return {
      words: [
        `${byteSize(total(parts))} at the peak, at the ${when}`,
        `${split}.`,
        `The ${later ? "first" : "second"} step peaks at ${byteSize(otherPeak)}.`,
      ],
      moments,
      when,
      peak: total(parts),
      otherPeak,
    };
  },

  picture({ moments, when, peak }, width) {
    const names = Object.keys(moments[0][1]), colours = DATA.colours.memory, left = 8, floor = 214, last = moments.length - 1;
    const picture = new Picture(width, 248 + 20 * legendRows(names, width));
    const at = (place) => left + (width - 2 * left) * place / last, high = (bytes) => floor - 184 * bytes / peak;
    let below = moments.map(() => 0);
    names.forEach((name, place) => {
      const above = moments.map(([, parts], moment) => below[moment] + parts[name]);
      const edge = (heights) => heights.map((bytes, moment) => `${tenth(at(moment))},${tenth(high(bytes))}`);
      picture.add("polygon", { points: [...edge(above), ...edge(below).reverse()].join(" "), fill: colours[place], class: "outlined" });
      if (place % 2) {
        const strokes = above.map((bytes, moment) => `M${tenth(at(moment))},${tenth(high(bytes))} V${tenth(high(below[moment]))}`);
        picture.add("path", { d: strokes.join(""), class: "hatch" });
      }
      below = above;
    });
    const highest = moments.findIndex(([each]) => each === when), x = at(highest);
    picture.dot(x, high(peak), "yours");
    picture.text(x, high(peak) - 10, `${byteSize(peak)}, ${when}`, x < width / 3 ? "start" : x > 2 * width / 3 ? "end" : "middle");
    const loss = moments.findIndex(([each]) => each === "loss");
    const places = [[0, "start", "start"], [loss / 2, "forward", "middle"], [loss, "loss", "middle"], [(loss + last) / 2, "backward", "middle"], [last, "update", "end"]];
    for (const [place, words, anchor] of places) picture.text(at(place), floor + 18, words, anchor);
    picture.legend(names, colours, floor + 32);
    return picture.svg;
  },
};
