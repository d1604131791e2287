// What several calculators compute, by the formulas of utils/napkin/formulas.py: a test compares both.

const PROCESSORS = Object.keys(DATA.processors);
const WITH_BF16 = PROCESSORS.filter((name) => "bf16" in DATA.processors[name].flops); // those that train large models
const LOGITS = 3; // tensors as large as the logits at the peak: log-probabilities, their gradient, and that of the logits

function peakOf(processor, precision) {
  const flops = DATA.processors[processor].flops;
  if (!(precision in flops)) refuse(`${processor} has no ${precision} units. Choose among ${Object.keys(flops).join(", ")}.`);
  return flops[precision];
}

// The divisors of `all` that are nearest to `number`, below and above; of those up to DATA.few, and `all` itself.
function divisorsAround(all, number) {
  const divisors = [];
  for (let each = 1; each <= Math.min(all, DATA.few); each++) if (all % each === 0) divisors.push(each);
  divisors.push(all);
  const below = Math.max(...divisors.filter((each) => each <= number)), above = divisors.filter((each) => each >= number);
  return [...new Set([below, above.length ? Math.min(...above) : below])];
}
const either = (sizes) => sizes.map((each) => BigInt(each)).join(" or ");

// {part: parameters} of a decoder-only Transformer, a shape as facts.MODELS has them.
function parameterParts(shape) {
  const { layers, width, heads, kv_heads, ffn, vocabulary, context } = shape;
  if (width % heads) {
    const below = BigInt(width) / BigInt(heads) * BigInt(heads); // exact also where doubles have gaps
    const widths = either([below, below + BigInt(heads)].filter(Boolean));
    refuse(`width ${BigInt(width)} does not split into ${BigInt(heads)} heads. Choose width ${widths}, or heads ${either(divisorsAround(width, heads))}.`);
  }
  if (heads % kv_heads) {
    refuse(`${heads} heads do not share ${kv_heads} heads of keys evenly. Choose ${either(divisorsAround(heads, kv_heads))} heads of keys.`);
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
const sizeOf = (model) => whole(parameterCount(DATA.models[model]));

// Bytes that autograd saves for one layer in fp32.
function activationBytes(batch, tokens, width, heads, flash = false) {
  const rows = batch * heads * tokens;
  return 64 * batch * tokens * width + 16 * batch * tokens + (flash ? 4 * rows : 4 * rows * tokens + tokens ** 2);
}
