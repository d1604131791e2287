// The parameters of a decoder-only Transformer, part by part. Biases: on every linear map but the LM head, and in the norms.

const SIZES = ["layers", "width", "heads", "kv_heads", "ffn", "vocabulary", "context"];

function shapeOf(model) {
  const shape = DATA.models[model], { gated, tied, biases } = shape;
  const sizes = Object.fromEntries(SIZES.map((name) => [name, whole(shape[name])]));
  return { ...sizes, gated, tied, positions: shape.learned_positions, biases };
}

// The count that was typed, null where none was.
function countOrNull(text) {
  try {
    return readCount("size", text);
  } catch {
    return null;
  }
}
// The size nearest to `number` that goes with the others: a width splits into the heads, heads split the width, and heads
// share their keys. `number` itself where what it has to go with is no count.
function fitting(name, number, set) {
  const other = countOrNull(set[{ width: "heads", heads: "width", kv_heads: "heads" }[name]]);
  if (other === null) return number;
  if (name === "width") return other * Math.max(1, Math.round(number / other));
  const [below, above = below] = divisorsAround(other, number);
  return above - number < number - below ? above : below;
}

CALCULATORS["parameter-shares"] = {
  title: "Where are a Transformer's parameters?",
  inputs: [
    count("layers", "layers", 0, 8, 2),
    count("width", "width (d_model)", 6, 15, 2),
    count("heads", "heads", 0, 8, 2),
    count("kv_heads", "heads of keys", 0, 8, 2),
    count("ffn", "feed-forward (d_ff)", 6, 17, 2),
    count("vocabulary", "vocabulary", 2, 6),
    count("context", "context", 6, 17, 2),
    toggle("gated", "gated feed-forward"),
    toggle("tied", "tied LM head"),
    toggle("positions", "learned positions"),
    toggle("biases", "biases"),
  ],
  presets: Object.fromEntries(Object.keys(DATA.models).map((model) => [model, shapeOf(model)])),

  answer({ positions, biases, ...sizes }) {
    const shape = { ...sizes, learned_positions: positions, biases, norm_biases: biases };
    const parts = parameterParts(shape), all = total(parts), names = Object.keys(parts);
    const largest = names.reduce((best, name) => (parts[name] > parts[best] ? name : best));
    const known = Object.entries(DATA.models).map(([name, model]) => [name, parameterParts(model)]);
    const same = known.filter(([, own]) => names.every((name) => own[name] === parts[name])).map(([name]) => name).join(", ");
    const head = `A head is ${shape.width / shape.heads} wide`;
    return {
      words: [
        `${all < 1e15 ? whole(all) : general(all, 4)} parameters`,
        `The largest part is ${largest}: ${percent(parts[largest], all)}. Embedding matrix and LM head together: `
          + `${percent(parts.embedding + parts.head, all)}.${same ? ` That is ${same}, to the last one.` : ""}`,
        shape.heads === shape.kv_heads ? `${head}. More heads cost nothing while each has keys of its own.`
          : `${head}; ${shape.heads} query heads share ${shape.kv_heads} of keys and values.`,
      ],
      parts,
      bars: [["yours", parts], ...known],
    };
  },

  picture({ bars }, width) {
    const rows = bars.map(([name, parts]) => [name, parts, shortCount(total(parts))]);
    return stackedBars(width, rows, DATA.colours.parameters, { chosen: 0, shares: true });
  },

  stop(name, number, set) {
    return ["width", "heads", "kv_heads"].includes(name) ? whole(fitting(name, Math.round(number), set)) : written(number);
  },

  // Where each head had keys of its own it keeps them, else there are as many as before, or the nearest that the heads share.
  follow(before, now) {
    const [heads, keys, old] = [now.heads, now.kv_heads, before.heads].map(countOrNull);
    if (now.heads === before.heads || now.kv_heads !== before.kv_heads || [heads, keys, old].includes(null)) return {};
    return { kv_heads: whole(keys === old ? heads : fitting("kv_heads", keys, now)) };
  },
};
