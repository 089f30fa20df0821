// Light and dark: the system's choice until the reader makes another.

/** @type {(() => void)[]} what draws with the theme's colours */
const drawings = [];

/** @param {string} name of a custom property in page.css */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

/**
 * Do something that takes long once the page can be used, and lets it answer before.
 * @param {() => void} act
 */
function later(act) {
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => setTimeout(act), { once: true });
  else setTimeout(act);
}

/** @param {boolean} dark */
function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").textContent = dark ? "Light" : "Dark";
  // One after the other, so that the page answers in between.
  for (const draw of drawings) later(draw);
  later(() => {
    document.documentElement.dataset.ready = "yes";
    performance.mark("drawn");
  });
}

function startTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  setTheme(system.matches);
  system.addEventListener("change", (event) => setTheme(event.matches));
  byId("theme").addEventListener("click", () => setTheme(!isDark()));
}

const SERIES = {
  light: { requests: "#2f7de1", responses: "#0f9d8f", exchanges: "#5b6fd6", errors: "#c9382b", unanswered: "#c07a12", p50: "#0f9d8f", p95: "#c07a12", p99: "#c2410c", max: "#8a8f98", rebalance: "#2f7de1", failover: "#8a3ffc" },
  dark: { requests: "#6aa9ff", responses: "#3fd0bf", exchanges: "#94a3ff", errors: "#ff7b6e", unanswered: "#f2b75c", p50: "#3fd0bf", p95: "#f2b75c", p99: "#ff9360", max: "#8492a1", rebalance: "#6aa9ff", failover: "#c29bff" },
};

/** @param {keyof typeof SERIES.light} name */
function seriesColour(name) {
  return SERIES[isDark() ? "dark" : "light"][name];
}

/** @param {number} place of a group @returns {string} */
function groupColour(place) {
  return seriesColour(/** @type {(keyof typeof SERIES.light)[]} */ (["exchanges", "p50", "p95", "errors"])[place % 4]);
}

/** Parts of every plot: text and lines in the theme's colours, tooltips drawn on the canvas. */
function common() {
  const ink = colour("ink");
  return {
    animation: false,
    useUTC: true,
    backgroundColor: "transparent",
    textStyle: { color: ink, fontFamily: "system-ui, 'Liberation Sans', sans-serif" },
    tooltip: {
      // Not HTML: names from the wire stay text.
      renderMode: "richText", confine: true, backgroundColor: colour("panel"), borderColor: colour("line"),
      textStyle: { color: ink, fontSize: 12 },
    },
  };
}

function axisLook() {
  const quiet = colour("quiet");
  return {
    axisLine: { lineStyle: { color: colour("line") } }, axisTick: { show: false },
    axisLabel: { color: quiet, fontSize: 11, hideOverlap: true }, nameTextStyle: { color: quiet, fontSize: 11, align: "left" },
    splitLine: { lineStyle: { color: colour("line"), opacity: 0.6 } },
  };
}

/** Paper is white, and narrower than most windows: printed plots are light, whatever the theme. */
function startPrinting() {
  /** @param {boolean} dark @param {number | "auto"} width */
  const redraw = (dark, width) => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    for (const place of document.querySelectorAll(".plot")) echarts.getInstanceByDom(/** @type {HTMLElement} */ (place))?.resize({ width });
    for (const draw of drawings) draw();
  };
  let wasDark = false;
  addEventListener("beforeprint", () => {
    wasDark = isDark();
    redraw(false, 680);
  });
  addEventListener("afterprint", () => redraw(wasDark, "auto"));
}

/** What Tab reaches is whole in its place, with the line around it: browsers leave parts outside. */
function startFocus() {
  addEventListener("focusin", ({ target }) => {
    const one = /** @type {HTMLElement} */ (target);
    if (one.matches("a:focus-visible, button:focus-visible")) one.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
}
