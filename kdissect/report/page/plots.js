// Plots that follow their element's size.

/** @type {any} */
const data = JSON.parse(byId("data").textContent || "{}");

/**
 * @param {string} id
 * @returns {any} a plot of ECharts that follows its element's size
 */
function plot(id) {
  return plotIn(byId(id), () => {});
}

/**
 * @param {HTMLElement} place
 * @param {() => void} redraw what depends on the width
 */
function plotIn(place, redraw) {
  const made = echarts.init(place, null, { renderer: "canvas" });
  let width = place.clientWidth;
  // Its first report is about the size that it has already.
  new ResizeObserver(() => {
    if (!place.clientWidth || place.clientWidth === width) return;
    width = place.clientWidth;
    made.resize();
    redraw();
  }).observe(place);
  return made;
}
