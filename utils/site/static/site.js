// Theme, search, folding, the ledger's filter. Works from a disk: nothing is fetched, search.js is loaded as a script.
"use strict";
(() => {
  const root = document.documentElement;
  const kept = (value) => {
    try {
      if (value === undefined) return localStorage.getItem("honest-training-loop-theme");
      localStorage.setItem("honest-training-loop-theme", value);
    } catch { /* a browser that keeps nothing for a file: the system's choice then */ }
    return null;
  };
  const show = (theme) => (theme === "light" || theme === "dark" ? root.setAttribute("data-theme", theme) : root.removeAttribute("data-theme"));
  root.classList.add("js");
  show(kept());

  // Text as it is searched: without accents, hyphens inside words, commas inside numbers; signs by their names.
  const SIGNS = { "−": "-", "–": "-", "×": "x", "·": " ", "√": "sqrt", "≤": "<=", "≥": ">=", "→": "->", "^": "",
    α: "alpha", β: "beta", γ: "gamma", δ: "delta", ε: "epsilon", η: "eta", θ: "theta", λ: "lambda", σ: "sigma", Σ: "sum" };
  const fold = (text) =>
    text.replaceAll("≠", "!=").normalize("NFKD").replace(/[\u0300-\u036f]/g, "").replace(/[−–×·√≤≥→^αβγδεηθλσΣ]/g, (sign) => SIGNS[sign])
      .replace(/(?<=\p{L})[-_](?=\p{L})/gu, "").replace(/(\d),(?=\d{3})/g, "$1").toLowerCase();
  const UNASKED = new Set(["a", "an", "and", "are", "do", "does", "how", "in", "is", "much", "of", "or", "the", "to", "versus", "vs", "what", "why"]);
  const wordsOf = (folded) => folded.split(/\s+/).map((word) => word.replace(/^["'“(]+|[.,;:?!"'”]+$/g, "")).filter(Boolean);
  const KINDS = { claim: 60, folklore: 60, misconception: 60, heading: 30, text: 0 };
  let records = null, loading = null;

  function load() {
    loading ??= new Promise((done) => {
      const script = document.createElement("script");
      script.src = "search.js";
      script.onload = () => {
        const { pages, texts } = window.COURSE;
        records = texts.map(([page, anchor, kind, title, words]) => ({
          address: `${pages[page][0]}#${anchor}`, page: pages[page][1], lab: pages[page][0].startsWith("lab_"), kind, title, words,
          head: fold(title), all: fold(`${title}${KINDS[kind] === 60 ? " claim" : ""} ${words}`),
        }));
        done();
      };
      document.head.append(script);
    });
    return loading;
  }

  // Claims come before headings, headings before text; whole words before parts of words. A term that is not all small
  // letters, such as ZeRO, is best found written like that. Where no record has all words, those with most of them.
  function search(question) {
    const phrase = fold(question).trim();
    const asked = wordsOf(phrase), words = asked.filter((word) => !UNASKED.has(word));
    if (!words.length) words.push(...asked);
    if (!words.length) return [];
    const written = question.trim().split(/\s+/).filter((word) => /\p{Lu}/u.test(word.slice(1)));
    const whole = words.map((word) => new RegExp(`(?<![\\p{L}\\d])${escaped(word)}(?![\\p{L}\\d])`, "u"));
    const score = (record) => {
      const found = words.filter((word) => record.all.includes(word)).length;
      if (!found) return null;
      let points = KINDS[record.kind] - (record.lab ? 25 : 0) + (record.all.includes(phrase) ? 20 : 0);
      whole.forEach((word) => { points += word.test(record.all) ? 20 : 0; });
      for (const word of words) points += record.kind !== "heading" && record.head.includes(word) ? 20 : 0; // a claim's number
      for (const word of written) points += `${record.title} ${record.words}`.includes(word) ? 30 : 0;
      return [found, points + (record.kind !== "heading" && words.some((word) => /\d/.test(word) && record.head.split(" ").includes(word)) ? 60 : 0)];
    };
    const scored = records.map((record) => [score(record), record]).filter(([points]) => points);
    const most = Math.max(...scored.map(([[found]]) => found));
    return scored.filter(([[found]]) => found === most)
      .sort((a, b) => b[0][1] - a[0][1]).slice(0, 40).map(([, record]) => record);
  }
  window.courseSearch = (question) => load().then(() => search(question));

  const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  // What a question's words look like in a text that was not folded.
  function pattern(question) {
    const words = wordsOf(fold(question)).filter((word) => !UNASKED.has(word));
    const loose = words.map((word) => [...word].map(escaped).join("[-_,]?"));
    return loose.length ? new RegExp(`(${loose.join("|")})`, "i") : null;
  }

  function excerpt(words, question) {
    const hit = pattern(question)?.exec(words)?.index ?? 0, from = hit > 60 ? words.lastIndexOf(" ", hit - 60) + 1 : 0;
    const to = words.length > from + 230 ? words.lastIndexOf(" ", from + 230) : words.length;
    return (from ? "… " : "") + words.slice(from, to) + (to < words.length ? " …" : "");
  }

  function marked(text, question) {
    const node = document.createElement("span"), hits = pattern(question);
    (hits ? text.split(hits) : [text]).forEach((part, place) => { // every second part is a hit
      node.append(place % 2 ? Object.assign(document.createElement("mark"), { textContent: part }) : part);
    });
    return node;
  }

  function list(found, box, question) {
    box.replaceChildren();
    for (const record of found) {
      const link = Object.assign(document.createElement("a"), { href: record.address });
      link.setAttribute("role", "option");
      link.id = `found-${box.childElementCount}`;
      const head = document.createElement("b");
      head.append(marked(record.title || record.page, question));
      const where = Object.assign(document.createElement("small"), { textContent: record.title ? record.page : `text in ${record.page}` });
      link.append(head, marked(excerpt(record.words, question), question), " ", where);
      box.append(link);
    }
    if (!found.length) box.append(Object.assign(document.createElement("p"), { textContent: "Nothing found: try fewer words, or a claim's number such as 7.3." }));
  }

  function startSearch() {
    const input = document.getElementById("find"), box = document.getElementById("found");
    let at = -1;
    const close = () => { box.hidden = true; at = -1; input.setAttribute("aria-expanded", "false"); input.removeAttribute("aria-activedescendant"); };
    const update = async () => {
      await load();
      if (!records) return;
      if (!input.value.trim()) return close();
      list(search(input.value), box, input.value);
      at = -1;
      input.removeAttribute("aria-activedescendant");
      box.hidden = false;
      input.setAttribute("aria-expanded", "true");
    };
    input.addEventListener("focus", load);
    input.addEventListener("input", update);
    input.addEventListener("keydown", (event) => {
      const links = box.hidden ? [] : [...box.querySelectorAll("a")];
      if (event.key === "Escape") { close(); input.blur(); }
      if (event.key === "Enter" && links.length) { event.preventDefault(); links[Math.max(at, 0)].click(); close(); }
      if ((event.key === "ArrowDown" || event.key === "ArrowUp") && links.length) {
        event.preventDefault();
        at = (at + (event.key === "ArrowDown" ? 1 : links.length - 1) + (at < 0 && event.key === "ArrowUp" ? 1 : 0)) % links.length;
        links.forEach((link, place) => link.setAttribute("aria-selected", place === at));
        input.setAttribute("aria-activedescendant", links[at].id);
        links[at].scrollIntoView({ block: "nearest" });
      }
    });
    document.addEventListener("focusin", (event) => { if (!box.contains(event.target) && event.target !== input) close(); });
    document.addEventListener("click", (event) => { if (!box.contains(event.target) && event.target !== input) close(); });
    box.addEventListener("click", (event) => { if (event.target.closest("a")) close(); });
    for (const link of document.querySelectorAll(".to-search")) {
      link.addEventListener("click", (event) => { event.preventDefault(); scrollTo(0, 0); input.focus(); });
    }
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) { event.preventDefault(); input.focus(); }
    });
  }

  function startTheme() {
    const button = document.getElementById("theme");
    const names = { "": "◐", light: "☀", dark: "☾" };
    const now = () => root.getAttribute("data-theme") || "";
    const say = () => {
      button.textContent = names[now()];
      button.setAttribute("aria-label", `colours: ${now() || "as the system says"}`);
    };
    say();
    button.addEventListener("click", () => {
      const next = { "": "dark", dark: "light", light: "" }[now()];
      show(next);
      kept(next);
      say();
    });
  }

  function startFolding() {
    const button = document.getElementById("fold");
    const sources = [...document.querySelectorAll("details.source")];
    const open = sources.map((source) => source.open);
    let folded = false;
    button?.addEventListener("click", () => {
      folded = !folded;
      sources.forEach((source, place) => { source.open = !folded && open[place]; });
      button.textContent = folded ? "unfold code" : "fold all code";
    });
  }

  function startFilter() {
    const status = document.getElementById("status"), lecture = document.getElementById("lecture"), shown = document.getElementById("shown");
    if (!status) return;
    const update = () => {
      let count = 0;
      for (const body of document.querySelectorAll("table.claims tbody")) {
        let here = 0;
        for (const row of body.querySelectorAll("tr:not(.head)")) {
          row.hidden = (lecture.value && body.dataset.lecture !== lecture.value) || (status.value && !row.classList.contains(status.value));
          here += !row.hidden;
        }
        body.hidden = !here;
        count += here;
      }
      shown.textContent = `${count} claims`;
    };
    status.addEventListener("change", update);
    lecture.addEventListener("change", update);
    addEventListener("pageshow", update); // a browser that goes back sets the lists again, after the page has loaded
  }

  // A link into something folded opens it.
  function reveal() {
    let target = null;
    const place = location.hash.slice(1);
    try { target = document.getElementById(place) ?? document.getElementById(decodeURIComponent(place)); } catch { /* no such place */ }
    for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
    if (target?.closest("details")) target.scrollIntoView();
  }

  // The side bar: open where it has room; it marks the part of the page that is being read, and keeps the mark in view.
  function startContents() {
    const contents = document.querySelector(".contents");
    if (!contents) return;
    const broad = matchMedia("(min-width: 62.01rem)");
    const fit = () => { contents.open = broad.matches; };
    broad.addEventListener("change", fit);
    fit();
    contents.addEventListener("click", (event) => { if (event.target.closest("a") && !broad.matches) contents.open = false; });
    const links = [...contents.querySelectorAll(".headings a")];
    const targets = links.map((link) => document.getElementById(link.getAttribute("href").slice(1))); // as written: nbconvert's ids have escapes
    let marked = null;
    const mark = () => {
      const line = innerHeight + scrollY > root.scrollHeight - 10 ? innerHeight : innerHeight / 4; // at the end, all of it is read
      const passed = targets.filter((target) => target && target.getBoundingClientRect().top < line);
      const link = links[targets.indexOf(passed.at(-1))];
      if (link === marked) return;
      marked?.removeAttribute("aria-current");
      link?.setAttribute("aria-current", "location");
      marked = link;
      if (link && broad.matches) contents.scrollTop += link.getBoundingClientRect().top - contents.getBoundingClientRect().top - contents.clientHeight / 3;
    };
    let waiting = false;
    addEventListener("scroll", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; mark(); });
    }, { passive: true });
    const here = contents.querySelector("[aria-current=page]");
    if (here && broad.matches) contents.scrollTop = here.offsetTop - contents.clientHeight / 3;
    mark();
  }

  // What scrolls sideways can be reached and scrolled by keyboard, and says what it is.
  function startScrolling() {
    const boxes = [...document.querySelectorAll("pre, .wide, .output, .opening figure, math[display=block]")];
    const update = () => {
      const scrolls = boxes.map((box) => box.scrollWidth > box.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(box).overflowX));
      boxes.forEach((box, place) => {
        if (!scrolls[place]) return ["tabindex", "role", "aria-label"].forEach((name) => box.removeAttribute(name));
        box.tabIndex = 0;
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", `${box.matches(".wide") ? "table" : box.matches("figure") ? "picture" : box.matches("math") ? "formula" : box.closest(".source") ? "code" : "output"}, scrolls sideways`);
      });
    };
    addEventListener("resize", update);
    document.addEventListener("toggle", update, true);
    update();
  }

  // Copies a claim's sentence and its address.
  function startCopying() {
    document.addEventListener("click", async (event) => {
      const button = event.target.closest("button.copy");
      if (!button) return;
      const claim = button.closest(".cell"), address = new URL(`#${claim.id}`, location.href).href;
      const sentence = claim.querySelector("p:not(.verdict)").textContent.trim().replace(/\s+/g, " ");
      let done = true;
      try { await navigator.clipboard.writeText(`${sentence} (${address})`); } catch { done = false; location.hash = claim.id; }
      button.textContent = done ? "copied" : "copy the address above";
      setTimeout(() => { button.textContent = "copy"; }, 2000);
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const start of [startTheme, startSearch, startFolding, startFilter, startContents, startScrolling, startCopying, reveal]) start();
    addEventListener("hashchange", reveal);
  });
})();
