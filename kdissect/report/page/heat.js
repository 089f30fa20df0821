// The heat map: exchanges by latency and time, of one name and one part of latency.

/** @type {{map: any, part: string}} */
const heat = { map: data.heat.maps[0], part: "latency" };

/** @param {any} _params @param {any} api a cell: [from, latency bin, exchanges, log10 of them] */
function heatCell(_params, api) {
  const low = api.coord([api.value(0), api.value(1) / 8 + 3]);
  const high = api.coord([api.value(0) + data.heat.width_ms, (api.value(1) + 1) / 8 + 3]);
  return {
    type: "rect", style: { fill: api.visual("color") },
    shape: { x: low[0], y: high[1], width: Math.max(high[0] - low[0] - 0.4, 1), height: Math.max(low[1] - high[1] - 0.4, 1) },
  };
}

function heatCells() {
  const flat = (heat.map && heat.map.cells[heat.part]) || [];
  const cells = [];
  for (let at = 0; at < flat.length; at += 3) {
    cells.push([data.heat.start_ms + flat[at] * data.heat.width_ms, flat[at + 1], flat[at + 2], Math.log10(flat[at + 2])]);
  }
  return cells;
}

function heatOption() {
  const cells = heatCells();
  const look = axisLook();
  const bins = cells.map((cell) => cell[1]);
  const most = Math.max(1, ...cells.map((cell) => cell[2]));
  const blues = isDark() ? ["#1d3a5f", "#2f7de1", "#f2b75c", "#ff7b6e"] : ["#cfe1f7", "#2f7de1", "#d9822b", "#b42318"];
  return {
    ...common(),
    grid: { left: 64, right: 18, top: 26, bottom: 90 },
    tooltip: { ...common().tooltip, trigger: "item", formatter: heatTooltip },
    xAxis: { ...look, type: "time", min: START, max: END, splitLine: { show: false } },
    yAxis: { ...look, type: "value", name: heat.part, min: Math.floor(Math.min(32, ...bins) / 8) + 3, max: Math.floor(Math.max(16, ...bins) / 8) + 4, interval: 1, axisLabel: { ...look.axisLabel, formatter: (/** @type {number} */ power) => duration(10 ** power) } },
    visualMap: { type: "continuous", dimension: 3, min: 0, max: Math.max(Math.log10(most), 0.3), orient: "horizontal", left: "center", bottom: 34, itemHeight: 140, itemWidth: 10, calculable: false, text: [`${count(most)} exchanges`, "1"], textStyle: { color: colour("quiet") }, inRange: { color: blues } },
    dataZoom: [
      { type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, filterMode: "none" },
      { type: "slider", bottom: 6, height: 18, filterMode: "none", labelFormatter: (/** @type {number} */ ms) => clock(ms).slice(11), textStyle: { color: colour("quiet") } },
    ],
    series: [{ type: "custom", name: "exchanges", renderItem: heatCell, data: cells, encode: { x: 0, y: 1 }, clip: true, markArea: { silent: true, data: areas(true) } }],
  };
}

/** @param {any} item */
function heatTooltip(item) {
  if (!item.value) return "";
  const [from, bin, many] = item.value;
  const low = 10 ** (bin / 8 + 3);
  return `${clock(from)}, ${duration(data.heat.width_ms * 1e6)}\n${heat.part} ${duration(low)} to ${duration(low * 10 ** 0.125)}\n${count(many)} exchanges`;
}

function startHeat() {
  if (!data.heat.maps.length) {
    byId("latency").hidden = true;
    return;
  }
  const chart = plot("heat-plot");
  timed.push(chart);
  byId("heat-plot").setAttribute("aria-label", "Heat map of latency over time; the tables have the percentiles");
  const draw = () => chart.setOption(heatOption(), { replaceMerge: ["series"] });
  drawings.push(draw);
  chart.on("datazoom", () => follow(chart));
  const [which, parts] = [element("select"), element("select")];
  fillHeat(/** @type {HTMLSelectElement} */ (which), /** @type {HTMLSelectElement} */ (parts));
  for (const one of [which, parts]) one.addEventListener("change", () => chooseHeat(which, parts, draw));
  byId("heat-choice").append(element("label", {}, "of", which), element("label", {}, "part", parts));
  byId("heat-text").textContent = `Warmer is more exchanges. A cell is ${duration(data.heat.width_ms * 1e6)} wide; its upper end is 33 % above its lower one. Latency = queue + long poll + broker time; upload and download come beside it.`;
}

/** @param {HTMLSelectElement} which @param {HTMLSelectElement} parts */
function fillHeat(which, parts) {
  /** @type {Record<string, HTMLElement>} */
  const groups = {};
  data.heat.maps.forEach((/** @type {any} */ one, /** @type {number} */ place) => {
    const option = element("option", { value: String(place) }, one.by === "all" ? "all exchanges" : one.name || "(none)");
    if (one.by === "all") {
      which.append(option);
      return;
    }
    groups[one.by] ||= which.appendChild(element("optgroup", { label: one.by }));
    groups[one.by].append(option);
  });
  for (const part of ["latency", "upload", "queue", "long poll", "broker time", "download"]) parts.append(element("option", { value: part }, part));
}

/** @param {HTMLElement} which @param {HTMLElement} parts @param {() => void} draw */
function chooseHeat(which, parts, draw) {
  heat.map = data.heat.maps[Number(/** @type {HTMLSelectElement} */ (which).value)];
  heat.part = /** @type {HTMLSelectElement} */ (parts).value;
  draw();
}

/** @param {string} part of latency to show */
function heatPart(part) {
  const parts = byId("heat-choice").querySelectorAll("select")[1];
  if (!parts) return;
  parts.value = part;
  parts.dispatchEvent(new Event("change"));
}

/** @param {string} by @param {string[]} names show the heat map of the first of these that has one */
function heatOf(by, names) {
  const place = data.heat.maps.findIndex((/** @type {any} */ one) => one.by === by && names.includes(one.name));
  const which = byId("heat-choice").querySelector("select");
  if (place < 0 || !which) return false;
  which.value = String(place);
  which.dispatchEvent(new Event("change"));
  return true;
}
