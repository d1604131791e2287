// FLOPs, bytes and the least time of (m, k) @ (k, n): all three matrices in one precision, each moved once.

const product = (m, k, n, gpu, precision) => ({ m: whole(m), k: whole(k), n: whole(n), gpu, precision });
const COMPARED = ["A100", "H100"];
// The dtype in which a precision is stored; of the two fp8 formats that of weights and activations.
const dtypeOf = (precision) => DATA.formats[precision === "fp8" ? "fp8 e4m3" : precision].dtype;

CALCULATORS.matmul = {
  title: "How fast can a matrix product be?",
  inputs: [
    count("m", "m", 0, 17, 2),
    count("k", "k", 0, 17, 2),
    count("n", "n", 0, 17, 2),
    choice("gpu", "processor", PROCESSORS),
    choice("precision", "precision", DATA.precisions),
  ],
  presets: {
    "4,096 cubed, H100, bf16": product(4096, 4096, 4096, "H100", "bf16"),
    "one token, H100, bf16": product(1, 4096, 4096, "H100", "bf16"),
    "one head's scores, H100, bf16": product(8192, 128, 8192, "H100", "bf16"),
    "LLaMA-3 8B's LM head, B200, fp8": product(8192, 4096, 128256, "B200", "fp8"),
    "512 cubed, a laptop, fp32": product(512, 512, 512, "Ryzen 7 7840U", "fp32"),
  },

  answer({ m, k, n, gpu, precision }) {
    const of = (processor, each) => {
      const peak = peakOf(processor, each), bandwidth = DATA.processors[processor].bandwidth, flops = 2 * m * k * n;
      const bytes = (m * k + k * n + m * n) * DATA.dtypeBytes[dtypeOf(each)], intensity = flops / bytes;
      const attainable = Math.min(peak, intensity * bandwidth);
      return { peak, bandwidth, flops, bytes, intensity, ridge: peak / bandwidth, attainable, seconds: flops / attainable };
    };
    const here = of(gpu, precision), [M, K, N] = [m, k, n].map(shortCount);
    const elsewhere = COMPARED.map((processor) =>
      `${processor} ${["fp32", "bf16"].map((each) => `${duration(of(processor, each).seconds)} in ${each}`).join(", ")}`);
    return {
      words: [
        `${duration(here.seconds)} at best, bound by ${here.intensity < here.ridge ? "memory" : "arithmetic"}`,
        `(${M}, ${K}) @ (${K}, ${N}): 2 m k n = ${general(here.flops, 4)} FLOPs, and ${byteSize(here.bytes)} moved at the least.`,
        `${grouped(general(here.intensity, 4))} FLOPs for each byte; ${gpu} in ${precision} needs ${grouped(general(here.ridge, 4))} to be busy.`,
        `At most ${prefixed(here.attainable, "FLOP/s", 4)}, ${general(100 * here.attainable / here.peak, 3)} % of the peak.`,
        `The same product elsewhere, at best: ${elsewhere.join("; ")}.`,
      ],
      roofs: DATA.processors[gpu].flops,
      precision,
      ...here,
    };
  },

  picture({ roofs, bandwidth, precision, intensity, attainable, ridge }, width) {
    const left = Math.min(0.1, intensity / 3), right = Math.max(1e4, 3 * ridge, 3 * intensity);
    const low = Math.min(left * bandwidth, attainable / 3), high = 4 * Math.max(...Object.values(roofs));
    const names = Object.keys(roofs).sort((one, other) => (one === precision) - (other === precision)); // the chosen one on top
    const roof = (name) => {
      const peak = roofs[name];
      return [[[left, left * bandwidth], [peak / bandwidth, peak], [right, peak]], name === precision ? "best" : "other"];
    };
    return logPlot(width, {
      x: [left, right], y: [low, high], across: "FLOPs for each byte moved", up: `FLOP/s (thick: ${precision}, thin: the others)`,
      lines: names.map(roof), points: [[intensity, attainable, `this product: ${grouped(general(intensity, 4))} FLOPs for each byte`, "yours"]],
    });
  },
};
