"use strict";
// Figures, theme, sorting and copying. Plotly is the only thing around it; nothing is loaded.
(() => {
  const NARROW = 560;
  const PAPER = 680; // what fits on a printed page
  const root = document.documentElement;
  const store = JSON.parse(document.getElementById("report-data").textContent);
  const hosts = [...document.querySelectorAll(".canvas")];
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const touch = window.matchMedia("(pointer: coarse)");
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // ---------------------------------------------------------------- figures
  // Only what stands under a colour is replaced: a name in the data may look like a variable.
  function coloured(value, style, isColour = false) {
    if (Array.isArray(value)) return value.map((one) => coloured(one, style, isColour));
    if (value && typeof value === "object") {
      const out = {};
      for (const [key, one] of Object.entries(value)) out[key] = coloured(one, style, isColour || /color(scale)?$/.test(key));
      return out;
    }
    if (isColour && typeof value === "string" && value.startsWith("var(--")) return style.getPropertyValue(value.slice(4, -1)).trim();
    return value;
  }

  function merged(base, more) {
    const out = { ...base };
    for (const [key, value] of Object.entries(more || {})) {
      const inner = value && typeof value === "object" && !Array.isArray(value);
      out[key] = inner ? merged(out[key] || {}, value) : value;
    }
    return out;
  }

  // The three pictures of the table come from the same cells: k known, f filled in, o left open.
  function tableCells(view) {
    const { rows, cols, names, code, state, sure, position } = store.cells;
    const percent = (p) => `${(100 * p).toFixed(1)} %`;
    const z = [], text = [];
    rows.forEach((row, i) => {
      const zRow = [], textRow = [];
      cols.forEach((col, j) => {
        const kind = state[i][j], name = names[code[i][j]], p = sure[i][j];
        const shown = { known: kind === "k", completed: kind !== "o", confidence: kind !== "k" }[view];
        zRow.push(!shown ? null : view === "confidence" ? (p === null ? null : 100 * p) : position[i][j]);
        const chance = p === null ? "" : `, probability ${percent(p)}`;
        const said = { k: `known: ${name}`, f: `filled in: ${name}${chance}`, o: `left open; likeliest: ${name}${chance}` }[kind];
        textRow.push(`${row}<br>${col}<br>${said}`);
      });
      z.push(zRow);
      text.push(textRow);
    });
    return { z, text };
  }

  const isNarrow = (host) => host.clientWidth < NARROW;

  function drawable(host, width) {
    const spec = store.figures[host.dataset.figure];
    const style = getComputedStyle(root);
    const data = coloured(spec.data, style);
    if (isNarrow(host)) Object.assign(data[0], spec.narrow_data);
    if (spec.cells) Object.assign(data[0], tableCells(spec.cells));
    const layout = coloured(isNarrow(host) ? merged(spec.layout, spec.narrow) : spec.layout, style);
    if (touch.matches && !layout.scene) layout.dragmode = false; // a finger on a figure scrolls the page
    if (width) layout.width = Math.min(width, host.clientWidth || width);
    return { data, layout };
  }

  // Buttons are listed, not removed: newer versions of plotly.js bring one that sends the figure away.
  const config = (layout) => ({
    displaylogo: false,
    displayModeBar: touch.matches ? false : "hover",
    modeBarButtons: [["toImage", layout.scene ? "resetCameraDefault3d" : "resetScale2d"]],
    showSendToCloud: false,
    plotlyServerURL: "",
    responsive: true,
  });

  async function draw(host, { anew = false, width = 0 } = {}) {
    const spec = store.figures[host.dataset.figure];
    try {
      const { data, layout } = drawable(host, width);
      if (anew) {
        window.Plotly.purge(host);
        host.textContent = "";
        host.style.minHeight = `${spec.layout.height}px`;
      }
      await window.Plotly[anew ? "newPlot" : "react"](host, data, layout, config(layout));
      host.dataset.drawn = host.dataset.figure;
    } catch (error) {
      host.innerHTML = '<p class="failed">This figure could not be drawn in this browser.</p>';
      console.error(error);
    }
    host.dataset.narrow = isNarrow(host);
  }

  // One after the other, so that no figure is drawn in two ways at a time.
  let waiting = Promise.resolve();
  function later(job) {
    waiting = waiting.then(job);
    return waiting;
  }
  const pause = () => new Promise((resolve) => setTimeout(resolve, 0));
  const redrawAll = () => hosts.forEach((host) => later(() => host.dataset.drawn && draw(host)));

  function show(host, name) {
    host.dataset.figure = name;
    const caption = document.getElementById(host.getAttribute("aria-describedby"));
    caption.textContent = store.figures[name].caption;
    return later(() => draw(host, { anew: true }));
  }

  for (const group of all(".views")) {
    const host = document.getElementById(group.dataset.host);
    const buttons = all("button", group);
    for (const button of buttons) {
      button.addEventListener("click", () => {
        buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
        show(host, button.dataset.figure);
      });
    }
  }

  const kinds = document.getElementById("kind");
  if (kinds) {
    kinds.addEventListener("change", () => {
      for (const name of ["confusion", "recall"]) show(document.getElementById(`host-${name}`), `${name}-${kinds.value}`);
      for (const part of all("[data-kind]")) part.hidden = part.dataset.kind !== kinds.value;
    });
  }

  const resized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.dataset.drawn && target.dataset.narrow !== String(isNarrow(target))) later(() => draw(target));
    }
  });

  // ---------------------------------------------------------------- theme
  const toggle = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  function paint() {
    toggle.textContent = isDark() ? "☀ Light" : "☾ Dark";
    toggle.setAttribute("aria-label", isDark() ? "Switch to the light theme" : "Switch to the dark theme");
    redrawAll();
  }
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    paint();
  });
  prefersDark.addEventListener("change", paint);

  // On paper everything is light and as wide as the page.
  let before;
  window.addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    hosts.forEach((host) => draw(host, { width: PAPER }));
  });
  window.addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    redrawAll();
  });

  // ---------------------------------------------------------------- tables, code, contents
  const collator = new Intl.Collator(undefined, { numeric: true });
  for (const table of all("table.sortable")) {
    const heads = all("thead th", table);
    heads.forEach((head, place) => {
      head.querySelector("button").addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((one) => one.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const value = (row) => row.cells[place].dataset.value ?? row.cells[place].textContent.trim();
        const rows = all("tbody tr", table).sort((a, b) => (down ? -1 : 1) * collator.compare(value(a), value(b)));
        table.tBodies[0].append(...rows);
      });
    });
  }

  const live = document.getElementById("live");
  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea"); // where the clipboard is closed to pages from a file
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      if (!done) throw new Error("not copied");
    }
  }
  for (const button of all("button.copy")) {
    button.addEventListener("click", async () => {
      const was = button.textContent;
      const words = await copied(document.getElementById(button.dataset.code).textContent).then(() => "Copied", () => "Not copied");
      button.textContent = live.textContent = words;
      setTimeout(() => { button.textContent = was; live.textContent = ""; }, 1600);
    });
  }

  const links = new Map(all("nav a").map((link) => [link.hash.slice(1), link]));
  const strip = document.querySelector("nav ol");
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      const link = links.get(target.id);
      link.setAttribute("aria-current", "true");
      strip.scrollTo({ left: link.offsetLeft - strip.clientWidth / 3 });
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  all("main section").forEach((section) => seen.observe(section));

  // ---------------------------------------------------------------- begin
  paint();
  for (const host of hosts) {
    later(() => draw(host, { anew: true }));
    later(pause);
    resized.observe(host);
  }
  later(() => { root.dataset.ready = "true"; });
})();
