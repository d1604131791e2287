// Gives each film on a page its controls: a button that plays, and a slider, which arrow keys move too.
// Runs in a notebook's output and on the site. Without it a film is its last picture.
"use strict";
(() => {
  const PLAY = "▶ play", PAUSE = "❚❚ pause";
  const PACE = matchMedia("(prefers-reduced-motion: reduce)").matches ? 600 : 200; // ms a frame; nothing moves until asked

  function direct(film) {
    film.classList.add("film-ready");
    const frames = [...film.querySelectorAll(".film-frame")];
    const make = (kind, settings) => Object.assign(document.createElement(kind), settings);
    const button = make("button", { type: "button", textContent: PLAY, className: "film-play" });
    const slider = make("input", { type: "range", min: 0, max: frames.length - 1, value: frames.length - 1, className: "film-slider" });
    slider.setAttribute("aria-label", "frame");
    const controls = make("div", { className: "film-controls" });
    // JupyterLab takes the arrow keys for its headings, unless the element that has the focus says this.
    slider.setAttribute("data-lm-suppress-shortcuts", "true");
    controls.style.cssText = "display: flex; gap: 0.8rem; align-items: center; max-width: 42rem";
    slider.style.flex = "1";
    button.style.minWidth = "6rem";
    controls.append(button, slider);
    film.append(controls);
    let timer = null;

    function show(place) {
      slider.value = place;
      slider.setAttribute("aria-valuetext", frames[place].querySelector("figcaption").textContent);
      frames.forEach((frame, n) => { frame.style.display = n === place ? "block" : "none"; });
    }
    function pause() {
      clearInterval(timer);
      timer = null;
      button.textContent = PLAY;
    }
    function play() {
      if (Number(slider.value) === frames.length - 1) show(0);
      button.textContent = PAUSE;
      timer = setInterval(() => {
        show(Number(slider.value) + 1);
        if (Number(slider.value) === frames.length - 1) pause();
      }, PACE);
    }
    button.addEventListener("click", () => (timer === null ? play() : pause()));
    slider.addEventListener("input", () => { pause(); show(Number(slider.value)); });
    show(frames.length - 1);
  }

  const all = () => document.querySelectorAll(".film:not(.film-ready)").forEach(direct);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", all);
  else all();
})();
