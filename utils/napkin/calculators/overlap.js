// When the gradients of a step have been averaged: fp32, a ring, one all-reduce at a time. Gradients become ready evenly
// over the backward pass; a bucket goes off once it is full.

const LATENCY = 5e-6; // seconds of each message in a ring
const MOST_BUCKETS = 10000, DRAWN = 60; // more of them are thinner than a pixel
const network = (parameters, backward_ms, bucket_mb, ranks, gigabytes_per_second) =>
  ({ parameters, backward_ms, bucket_mb, ranks: whole(ranks), gigabytes_per_second });

CALCULATORS.overlap = {
  title: "How much of the communication is hidden behind backward?",
  inputs: [
    count("parameters", "parameters", 6, 11),
    amount("backward_ms", "backward, ms", 0, 4),
    amount("bucket_mb", "bucket, MB", 0, 5),
    count("ranks", "ranks", 0, 10, 2),
    amount("gigabytes_per_second", "network, GB/s", -1, 3),
  ],
  presets: {
    "1.3B on 8 ranks, 100 GB/s": network("1.3B", "150", "25", 8, "100"),
    "the same at 25 GB/s": network("1.3B", "150", "25", 8, "25"),
    "GPT-2 over 1 GB/s Ethernet": network("124M", "60", "25", 8, "1"),
    "one bucket for all": network("1.3B", "150", "10,000", 8, "100"),
    "tiny buckets": network("1.3B", "150", "1", 64, "100"),
  },

  answer({ parameters, backward_ms, bucket_mb, ranks, gigabytes_per_second }) {
    const bytes = 4 * parameters, backward = backward_ms / 1e3, bucket = bucket_mb * 1e6, bandwidth = gigabytes_per_second * 1e9;
    const number = Math.ceil(bytes / bucket);
    if (number > MOST_BUCKETS) refuse(`a bucket of ${general(bucket_mb, 3)} MB makes ${whole(number)} buckets, more than ${whole(MOST_BUCKETS)}. Give a larger one.`);
    const allReduce = (sent) => 2 * (ranks - 1) * (sent / ranks / bandwidth + LATENCY);
    const buckets = [];
    let free = 0;
    for (let n = 0; n < number; n++) {
      const sent = Math.min((n + 1) * bucket, bytes), ready = backward * sent / bytes, begins = Math.max(ready, free);
      free = begins + allReduce(sent - n * bucket);
      buckets.push([begins, free]);
    }
    const atOnce = backward + allReduce(bytes), end = Math.max(backward, free);
    const busy = sum(buckets.map(([begins, ends]) => ends - begins)), waits = end - backward, hidden = busy ? 1 - waits / busy : 1;
    const ms = (seconds) => `${fixed(1e3 * seconds, 1)} ms`;
    return {
      words: [
        `${ms(end)}, of which ${ms(waits)} wait for the network`,
        `Backward takes ${ms(backward)}, ${number === 1 ? "one all-reduce takes" : `${whole(number)} all-reduces take`} ${ms(busy)}; ${fixed(100 * hidden, 0)} % of that is hidden.`,
        `One all-reduce after backward would end at ${ms(atOnce)}.`,
      ],
      backward,
      buckets,
      end,
      atOnce,
    };
  },

  picture({ backward, buckets, end, atOnce }, width) {
    const picture = new Picture(width, 118), left = 82, last = Math.max(end, atOnce);
    const at = (seconds) => left + (width - left - 8) * seconds / last, every = Math.ceil(buckets.length / DRAWN);
    picture.text(left - 8, 43, "backward", "end");
    picture.bar(left, 28, at(backward) - left, 22, SKY);
    picture.text(left - 8, 75, "all-reduce", "end");
    for (let first = 0; first < buckets.length; first += every) {
      const [begins] = buckets[first], [, ends] = buckets[Math.min(first + every, buckets.length) - 1];
      picture.bar(at(begins), 60, at(ends) - at(begins), 22, ORANGE, { class: "outlined" });
    }
    picture.line([[at(backward), 24], [at(backward), 90]], "rule");
    picture.line([[at(atOnce), 24], [at(atOnce), 90]], "limit");
    picture.text(Math.max(276, at(atOnce)), 16, "one all-reduce, after backward, ends here", "end");
    picture.text(left, 108, "0");
    picture.text(width - 8, 108, `${general(1e3 * last, 4)} ms`, "end");
    return picture.svg;
  },
};
