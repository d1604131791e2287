// A calculator on a page: controls that a mouse or a keyboard moves, the answer in words, its picture. Each element with
// data-calculator gets one; what stood in it for readers without JavaScript is hidden then.

const OWN = "your own";
// Of controls, each its own, also where the outputs of several cells are on one page.
const PREFIX = `calculator-${Math.random().toString(36).slice(2)}`;
let ids = 0;

function make(kind, settings = {}, ...children) {
  const element = document.createElement(kind);
  for (const [name, value] of Object.entries(settings)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Controls: each has an element, a value, and `changed`, which it calls when a person moved it.
class Control {
  constructor(input) {
    this.input = input;
    this.id = `${PREFIX}-${++ids}`;
    this.changed = () => {};
    this.element = make("div", { className: "setting" }, make("label", { htmlFor: this.id, textContent: input.label }));
  }
  add(...elements) { this.element.append(...elements); }
  textBox() { return make("input", { type: "text", id: this.id, autocomplete: "off", spellcheck: false }); }
}

class ScaleControl extends Control {
  constructor(input) {
    super(input);
    this.stop = written;
    this.slider = make("input", { type: "range", min: 0, max: lastPlace(input), step: 1, "aria-label": input.label });
    this.box = this.textBox();
    this.slider.addEventListener("input", () => { this.value = this.stop(numberAt(input, Number(this.slider.value))); this.changed(); });
    this.box.addEventListener("change", () => { this.value = this.box.value; this.changed(); });
    this.add(this.slider, this.box);
  }
  get value() { return this.box.value; }
  set value(text) {
    this.box.value = text;
    this.slider.setAttribute("aria-valuetext", text);
    try {
      this.slider.value = placeOf(this.input, readAmount(this.input.label, text));
    } catch (error) {
      if (!(error instanceof Refused)) throw error; // no number: the slider stays where it is
    }
  }
}

class SlideControl extends Control {
  constructor(input) {
    super(input);
    this.slider = make("input", { type: "range", id: this.id, min: input.low, max: input.high, step: input.step });
    this.shown = make("output", { htmlFor: this.id });
    this.slider.addEventListener("input", () => { this.value = Number(this.slider.value); this.changed(); });
    this.add(this.slider, this.shown);
  }
  get value() { return Number(Number(this.slider.value).toFixed(9)); }
  set value(number) {
    this.slider.value = number;
    this.shown.textContent = String(this.value);
  }
}

class ChoiceControl extends Control {
  constructor(input) {
    super(input);
    this.select = make("select", { id: this.id }, ...input.options.map((name) => make("option", { textContent: name })));
    this.select.addEventListener("change", () => this.changed());
    this.add(this.select);
  }
  get value() { return this.select.value; }
  set value(name) { this.select.value = name; }
}

class ToggleControl extends Control {
  constructor(input) {
    super(input);
    this.box = make("input", { type: "checkbox", id: this.id });
    this.box.addEventListener("change", () => this.changed());
    this.add(this.box);
  }
  get value() { return this.box.checked; }
  set value(value) { this.box.checked = value; }
}

class TypedControl extends Control {
  constructor(input) {
    super(input);
    this.box = this.textBox();
    this.box.addEventListener("input", () => this.changed());
    this.add(this.box);
  }
  get value() { return this.box.value; }
  set value(text) { this.box.value = text; }
}

const CONTROLS = {
  count: ScaleControl, amount: ScaleControl, slide: SlideControl, choice: ChoiceControl, toggle: ToggleControl, typed: TypedControl,
};

function mount(place) {
  const name = place.dataset.calculator, calculator = CALCULATORS[name], { title, presets, follow } = calculator;
  const controls = Object.fromEntries(calculator.inputs.map((input) => [input.name, new CONTROLS[input.kind](input)]));
  const preset = new ChoiceControl({ label: "start from", options: [...Object.keys(presets), OWN] });
  const said = make("div", { className: "answer", role: "status" }), drawn = make("div", { className: "drawn", role: "img" });
  const settings = make("div", { className: "settings" }, ...[preset, ...Object.values(controls)].map((control) => control.element));
  const live = make("div", { className: "live", role: "group", "aria-label": title }, settings, said, drawn);
  // JupyterLab takes arrow keys and letters for its notebook, unless the element that has the focus says this.
  for (const each of live.querySelectorAll("select, [type=range], [type=checkbox]")) each.setAttribute("data-lm-suppress-shortcuts", "true");
  const inputs = () => Object.fromEntries(Object.entries(controls).map(([argument, control]) => [argument, control.value]));
  const set = (values) => { for (const [argument, value] of Object.entries(values)) controls[argument].value = value; };
  let before = {}, current = null, wide = 0; // px

  function draw() {
    drawn.hidden = Boolean(current.refused);
    if (current.refused) return;
    wide = Math.max(280, Math.min(720, drawn.clientWidth || 640));
    drawn.innerHTML = calculator.picture(current, wide);
  }
  function tell() {
    before = inputs();
    current = answerTo(name, before);
    const [first, ...rest] = current.words;
    said.replaceChildren(make("p", {}, make("strong", { textContent: first })), ...rest.map((line) => make("p", { textContent: line })));
    drawn.setAttribute("aria-label", `${title} ${current.words.join(" ")}`);
    draw();
  }
  for (const [argument, control] of Object.entries(controls)) {
    control.changed = () => {
      if (follow) set(follow(before, inputs()));
      preset.value = OWN;
      tell();
    };
    if (calculator.stop) control.stop = (number) => calculator.stop(argument, number, inputs());
  }
  preset.changed = () => {
    if (preset.value === OWN) return;
    set(presets[preset.value]);
    tell();
  };
  place.classList.add("is-live");
  place.append(live);
  set(Object.values(presets)[0]);
  tell();
  new ResizeObserver(() => { if (Math.min(720, drawn.clientWidth) !== wide) draw(); }).observe(place);
}

const mountAll = () => document.querySelectorAll("[data-calculator]:not(.is-live)").forEach((place) => {
  if (place.dataset.calculator in CALCULATORS) mount(place);
});
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mountAll);
else mountAll();
