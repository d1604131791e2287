// Theme, search, folding, the ledger's filter. Works from a disk: nothing is fetched, search.js is loaded as a script.
"use strict";
(() => {
  const root = document.documentElement;
  const kept = (value) => {
    try {
      if (value === undefined) return localStorage.getItem("theme");
      localStorage.setItem("theme", value);
    } catch { /* a browser that keeps nothing for a file: the system's choice then */ }
    return null;
  };
  const show = (theme) => (theme ? root.setAttribute("data-theme", theme) : root.removeAttribute("data-theme"));
  root.classList.add("js");
  show(kept());

  const fold = (text) =>
    text.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").replace(/[−–]/g, "-").replace(/\^/g, "").replace(/(\d),(?=\d{3})/g, "$1").toLowerCase();
  const WEIGHTS = { claim: 30, folklore: 30, misconception: 30, heading: 40, text: 0 };
  let records = null, loading = null;

  function load() {
    loading ??= new Promise((done) => {
      const script = document.createElement("script");
      script.src = "search.js";
      script.onload = () => {
        const { pages, texts } = window.COURSE;
        records = texts.map(([page, anchor, kind, title, words]) => ({
          address: `${pages[page][0]}#${anchor}`, page: pages[page][1], lab: pages[page][0].startsWith("lab_"), kind, title, words,
          head: fold(title), all: fold(`${title} ${words} ${pages[page][1]}`),
        }));
        done();
      };
      document.head.append(script);
    });
    return loading;
  }

  // Every word must occur; claims and headings come before text, whole phrases before scattered words.
  function search(question) {
    const phrase = fold(question).trim();
    const words = phrase.split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const score = (record) => {
      if (!words.every((word) => record.all.includes(word))) return null;
      let points = WEIGHTS[record.kind] - (record.lab ? 25 : 0);
      if (record.all.includes(phrase)) points += 30;
      for (const word of words) points += record.head.includes(word) ? 20 : 0;
      return points + (record.head.split(" ").includes(phrase) ? 60 : 0);
    };
    return records.map((record) => [score(record), record]).filter(([points]) => points !== null)
      .sort((a, b) => b[0] - a[0]).slice(0, 40).map(([, record]) => record);
  }
  window.courseSearch = (question) => load().then(() => search(question));

  function excerpt(words, question) {
    const terms = fold(question).split(/\s+/).filter(Boolean);
    const folded = [...words].map((letter) => fold(letter) || " ").join("");
    let first = Math.min(...terms.map((term) => folded.indexOf(term)).filter((at) => at >= 0), words.length);
    if (first === words.length) first = 0;
    const from = Math.max(0, first - 60);
    return (from ? "… " : "") + words.slice(from, from + 230) + (words.length > from + 230 ? " …" : "");
  }

  function marked(text, question) {
    const terms = question.trim().split(/\s+/).filter(Boolean).map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const node = document.createElement("span");
    for (const part of terms.length ? text.split(new RegExp(`(${terms.join("|")})`, "i")) : [text]) {
      const hit = terms.some((term) => new RegExp(`^${term}$`, "i").test(part));
      node.append(hit ? Object.assign(document.createElement("mark"), { textContent: part }) : part);
    }
    return node;
  }

  function list(found, box, question) {
    box.replaceChildren();
    for (const record of found) {
      const link = Object.assign(document.createElement("a"), { href: record.address });
      link.setAttribute("role", "option");
      const head = document.createElement("b");
      head.append(marked(record.title || record.page, question));
      const where = Object.assign(document.createElement("small"), { textContent: record.title ? record.page : "text" });
      link.append(head, marked(excerpt(record.words, question), question), " ", where);
      box.append(link);
    }
    if (!found.length) box.append(Object.assign(document.createElement("p"), { textContent: "Nothing found: try fewer words, or a claim's number such as 7.3." }));
  }

  function startSearch() {
    const input = document.getElementById("find"), box = document.getElementById("found");
    let at = -1;
    const close = () => { box.hidden = true; at = -1; input.setAttribute("aria-expanded", "false"); };
    const update = async () => {
      await load();
      if (!records) return;
      if (!input.value.trim()) return close();
      list(search(input.value), box, input.value);
      at = -1;
      box.hidden = false;
      input.setAttribute("aria-expanded", "true");
    };
    input.addEventListener("focus", load);
    input.addEventListener("input", update);
    input.addEventListener("keydown", (event) => {
      const links = [...box.querySelectorAll("a")];
      if (event.key === "Escape") { close(); input.blur(); }
      if (event.key === "Enter" && links.length) { event.preventDefault(); links[Math.max(at, 0)].click(); close(); }
      if ((event.key === "ArrowDown" || event.key === "ArrowUp") && links.length) {
        event.preventDefault();
        at = (at + (event.key === "ArrowDown" ? 1 : links.length - 1) + (at < 0 && event.key === "ArrowUp" ? 1 : 0)) % links.length;
        links.forEach((link, place) => link.setAttribute("aria-selected", place === at));
        links[at].scrollIntoView({ block: "nearest" });
      }
    });
    document.addEventListener("click", (event) => { if (!box.contains(event.target) && event.target !== input) close(); });
    box.addEventListener("click", (event) => { if (event.target.closest("a")) close(); });
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) { event.preventDefault(); input.focus(); }
    });
  }

  function startTheme() {
    const button = document.getElementById("theme");
    const names = { "": "◐", light: "☀", dark: "☾" };
    const now = () => root.getAttribute("data-theme") || "";
    button.textContent = names[now()];
    button.addEventListener("click", () => {
      const next = { "": "dark", dark: "light", light: "" }[now()];
      show(next);
      kept(next);
      button.textContent = names[next];
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
    update();
  }

  // A link into something folded opens it.
  function reveal() {
    let target = null;
    try { target = document.getElementById(decodeURIComponent(location.hash.slice(1))); } catch { /* no such place */ }
    for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
    if (target?.closest("details")) target.scrollIntoView();
  }

  document.addEventListener("DOMContentLoaded", () => {
    const contents = document.querySelector(".contents");
    if (contents && matchMedia("(min-width: 62.01rem)").matches) contents.open = true;
    for (const start of [startTheme, startSearch, startFolding, startFilter, reveal]) start();
    addEventListener("hashchange", reveal);
  });
})();
