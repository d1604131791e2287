// How a view of a contiguous tensor lies in its storage: its last two axes swapped or not, then of the last axis every
// `step`-th element from `start` on. Strides and offset are in elements, exact as BigInt.

const MOST_AXES = 8;
const view = (shape, more = {}) => ({ shape, dtype: "float32", transposed: false, start: 0, step: 1, ...more });
const product = (sizes) => sizes.reduce((all, each) => all * each, 1n);
const tuple = (sizes) => `(${sizes.join(", ")}${sizes.length === 1 ? "," : ""})`;

// "4, 6", "(4, 6)", "4 × 6" or "torch.Size([4, 6])" as sizes.
function sizesOf(text) {
  const inside = text.trim().replace(/^torch\.Size/, "").replace(/^[\s([]+|[\s)\]]+$/g, "").replace(/,+$/, "");
  const parts = inside.split(/\s*[,×x]\s*|\s+/).filter(Boolean);
  if (parts.length > MOST_AXES) refuse(`${parts.length} axes are more than the ${MOST_AXES} that are drawn here. Write fewer.`);
  return parts.map((part, axis) => BigInt(readCount(`size ${axis + 1} of the shape`, part)));
}

CALCULATORS["storage-layout"] = {
  title: "How does a view lie in memory?",
  inputs: [
    typed("shape", "shape"),
    choice("dtype", "dtype", Object.keys(DATA.dtypeBytes)),
    toggle("transposed", "last two axes swapped"),
    slide("start", "start of the slice", 0, 12),
    slide("step", "step of the slice", 1, 6),
  ],
  presets: {
    "4 × 6, as it was made": view("4, 6"),
    "transposed": view("4, 6", { transposed: true }),
    "every second column": view("4, 6", { step: 2 }),
    "transposed, then every second": view("4, 6", { transposed: true, start: 1, step: 2 }),
    "a batch of small pictures": view("8, 3, 32, 32", { dtype: "uint8", transposed: true }),
    "larger than any memory": view("1000000, 1000000, 1000", { dtype: "bfloat16", start: 3, step: 5 }),
  },

  answer({ shape: text, dtype, transposed, start, step }) {
    const sizes = sizesOf(text), itemsize = BigInt(DATA.dtypeBytes[dtype]);
    if (product(sizes) > (1n << 63n) - 1n) refuse(`shape ${tuple(sizes)} has more elements than 64 bits can count. Make an axis smaller.`);
    const shape = [...sizes], stride = sizes.map((_, axis) => product(sizes.slice(axis + 1))), last = sizes.length - 1;
    let code = `torch.empty(${tuple(sizes)}, dtype=torch.${dtype})`, offset = 0n;
    if (transposed) {
      if (last < 1) refuse(`shape ${tuple(sizes)} has ${sizes.length === 1 ? "one axis" : "no axes"}, and to swap takes two. Write 4, 6.`);
      for (const list of [shape, stride]) [list[last - 1], list[last]] = [list[last], list[last - 1]];
      code += ".mT";
    }
    if (start !== 0 || step !== 1) {
      if (last < 0) refuse("a scalar has no axis to slice. Set start to 0 and step to 1, or write a shape.");
      const from = BigInt(start), by = BigInt(step);
      if (from >= shape[last]) refuse(`start ${start} leaves nothing of an axis of ${shape[last]}. Start at ${shape[last] - 1n} or before.`);
      offset = from * stride[last];
      shape[last] = (shape[last] - from + by - 1n) / by;
      stride[last] *= by;
      code += `[..., ${start}::${step}]`;
    }
    let contiguous = true, expected = 1n;
    for (let axis = last; axis >= 0; axis--) {
      if (shape[axis] > 1n && stride[axis] !== expected) contiguous = false;
      expected *= shape[axis];
    }
    const elements = product(shape), stored = product(sizes), nominal = whole(elements * itemsize);
    const kept = elements < stored ? `${whole(elements)} of ${whole(stored)} stored elements` : "all elements";
    return {
      words: [
        `shape ${tuple(shape)}, stride ${tuple(stride)}, offset ${offset}`,
        `${whole(elements)} × ${itemsize} B = ${nominal} B nominal, ${whole(stored * itemsize)} B in the storage: the view reads ${kept}.`,
        contiguous ? "Contiguous: view(-1) works, and nothing is copied."
          : `Not contiguous: contiguous() would copy, and make a storage of its own of ${nominal} B.`,
        `In torch: ${code}`,
      ],
      shape: shape.map(Number),
      stride: stride.map(Number),
      offset: Number(offset),
      stored: Number(stored),
      nominalBytes: Number(elements * itemsize),
      storedBytes: Number(stored * itemsize),
      contiguous,
      code,
    };
  },

  picture({ shape, stride, offset, stored }, width) {
    const size = 26, places = Math.min(24, Math.floor((width - 12) / size)), columns = Math.min(shape.at(-1) ?? 1, Math.min(12, places));
    const rowShape = shape.slice(0, -1), rows = Math.min(rowShape.reduce((all, each) => all * each, 1), 6);
    const colours = DATA.colours.memory.filter((_, place) => place), picture = new Picture(width, (rows + 1) * size + 66);
    const reader = new Map();
    const square = (column, y, place, colour) => {
      picture.bar(column * size, y, size - 2, size - 2, colour);
      picture.text(column * size + size / 2 - 1, y + 17, place < 1000 ? String(place) : "…", "middle", "on-colour");
    };
    picture.text(0, 13, "what each place of the view reads");
    for (let row = 0; row < rows; row++) {
      let rest = row, start = offset;
      for (let axis = rowShape.length - 1; axis >= 0; axis--) {
        start += (rest % rowShape[axis]) * stride[axis];
        rest = Math.floor(rest / rowShape[axis]);
      }
      for (let column = 0; column < columns; column++) {
        const place = start + column * (stride.at(-1) ?? 0);
        if (!reader.has(place)) reader.set(place, row);
        square(column, 22 + row * size, place, colours[row]);
      }
      if ((shape.at(-1) ?? 1) > columns) picture.text(columns * size + 4, 40 + row * size, "…");
    }
    const top = 22 + rows * size + 24;
    picture.text(0, top - 8, "the storage, grey where not read above");
    for (let place = 0; place < Math.min(places, stored); place++) {
      square(place, top, place, reader.has(place) ? colours[reader.get(place)] : "#9aa5b1");
    }
    if (stored > places) picture.text(places * size + 2, top + 18, "…");
    return picture.svg;
  },
};
