// The plots on the time axis: throughput, exchanges, latency and lag.

/** @type {any[]} */
const timed = [];
const time = data.time;
const START = time.start_ms;
const END = time.start_ms + time.width_ms * time.count;

/**
 * Whether bytes are missing in the capture: where it has problems, and before them since the last
 * exchange of their connection, where no other was seen.
 * @param {number} bin
 */
function isLost(bin) {
  return Boolean(time.missing_bytes[bin] || time.problems[bin] || (time.silences[bin] && !time.exchanges[bin]));
}

/** @returns {{from: number, to: number}[]} where bytes are missing in the capture */
function lostRanges() {
  /** @type {{from: number, to: number}[]} */
  const found = [];
  for (let bin = 0; bin < time.count; bin += 1) {
    if (!isLost(bin)) continue;
    const from = START + bin * time.width_ms;
    const last = found[found.length - 1];
    if (last && last.to >= from) last.to = from + time.width_ms;
    else found.push({ from, to: from + time.width_ms });
  }
  return found;
}

/**
 * Points of a line; where nothing was seen and bytes are missing there is a hole, not a zero.
 * @param {string} name
 */
function points(name) {
  const lost = new Set();
  /** @type {(number | null)[]} */
  const values = time[name];
  for (let bin = 0; bin < time.count; bin += 1) {
    if (!time.exchanges[bin] && isLost(bin)) lost.add(bin);
  }
  return values.map((value, bin) => [START + bin * time.width_ms, lost.has(bin) ? null : value]);
}

/** @param {number} from @param {number} to @param {string} name @param {any} itemStyle */
function area(from, to, name, itemStyle) {
  return [{ xAxis: from, name, itemStyle, label: { show: false } }, { xAxis: to }];
}

/** Areas of problems and warnings with a time, of rebalances and failovers, and of loss. Outlines hide no cell of a heat map. */
function areas(isOutlined = false) {
  const found = lostRanges().map(({ from, to }) => area(from, to, "missing in the capture", { color: colour("quiet"), opacity: 0.25 }));
  for (const band of data.bands) {
    const tint = seriesColour(band.kind);
    found.push(area(band.from_ms, band.to_ms, band.kind, isOutlined ? { color: "transparent", borderColor: tint, borderWidth: 1, borderType: "dashed" } : { color: tint, opacity: 0.2 }));
  }
  for (const finding of data.findings) {
    if (finding.severity === "notice" || !finding.first_time) continue;
    const [from, to] = rangeOf(finding);
    const tint = colour(finding.severity);
    found.push(area(from, to, finding.id, { color: tint, opacity: 0.1, borderColor: tint, borderWidth: 1, borderType: "solid" }));
  }
  return found;
}

/** @param {any} finding @returns {[number, number]} its time, at least a bin wide */
function rangeOf(finding) {
  const from = Date.parse(cutToMs(finding.first_time));
  const to = Date.parse(cutToMs(finding.last_time || finding.first_time));
  return [from, Math.max(to, from + time.width_ms)];
}

/** @param {string} iso with nanoseconds, which Date does not read */
function cutToMs(iso) {
  return iso.replace(/(\.\d{3})\d*Z$/, "$1Z");
}

/** @param {number} grid @param {string} name @param {string} key @param {string} tint @param {object} [more] */
function line(grid, name, key, tint, more = {}) {
  return {
    type: "line", name, xAxisIndex: grid, yAxisIndex: grid, data: points(key), step: "end", showSymbol: false,
    symbol: "circle", symbolSize: 4, lineStyle: { width: 1.5, color: tint }, itemStyle: { color: tint }, ...more,
  };
}

function timeOption() {
  const every = duration(time.width_ms * 1e6);
  const look = axisLook();
  const tops = [30, 204, 378, ...(data.lag.length ? [552] : [])];
  const everyGrid = tops.map((_, index) => index);
  const grids = tops.map((top) => ({ left: 64, right: 18, top, height: 130 }));
  const fill = { areaStyle: { opacity: 0.12 } };
  const dots = { step: false, showSymbol: true, connectNulls: false };
  const marks = { markArea: { silent: true, data: areas() } };
  return {
    ...common(),
    legend: { show: false }, // it is in HTML, for keys too: `startLines`
    grid: grids,
    axisPointer: { link: [{ xAxisIndex: "all" }] },
    tooltip: { ...common().tooltip, trigger: "axis", formatter: timeTooltip },
    xAxis: grids.map((_, index) => ({ ...look, type: "time", gridIndex: index, min: START, max: END, splitLine: { show: false }, axisLabel: { ...look.axisLabel, show: index === tops.length - 1 } })),
    yAxis: [
      { ...look, gridIndex: 0, name: `bytes per ${every}`, axisLabel: { ...look.axisLabel, formatter: bytes } },
      { ...look, gridIndex: 1, name: `exchanges per ${every}`, minInterval: 1 },
      { ...look, gridIndex: 2, name: "latency, by time of request", type: "log", axisLabel: { ...look.axisLabel, formatter: duration } },
      ...(data.lag.length ? [{ ...look, gridIndex: 3, name: "lag of groups, in records", min: 0, minInterval: 1 }] : []),
    ],
    dataZoom: [
      { type: "inside", xAxisIndex: everyGrid, zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, filterMode: "none" },
      { type: "slider", xAxisIndex: everyGrid, bottom: 8, height: 22, filterMode: "none", labelFormatter: (/** @type {number} */ ms) => clock(ms).slice(11), textStyle: { color: colour("quiet") } },
    ],
    series: [
      line(0, "requests", "request_bytes", seriesColour("requests"), { ...fill, ...marks }),
      line(0, "responses", "response_bytes", seriesColour("responses"), fill),
      line(1, "exchanges", "exchanges", seriesColour("exchanges"), { ...fill, ...marks }),
      line(1, "with errors", "errors", seriesColour("errors"), fill),
      line(1, "unanswered", "unanswered", seriesColour("unanswered")),
      line(2, "p50", "p50_ns", seriesColour("p50"), { ...dots, ...marks }),
      line(2, "p95", "p95_ns", seriesColour("p95"), dots),
      line(2, "p99", "p99_ns", seriesColour("p99"), dots),
      line(2, "max", "max_ns", seriesColour("max"), { ...dots, lineStyle: { width: 1, type: "dotted", color: seriesColour("max") } }),
      ...lagSeries(marks),
    ],
  };
}

/** @param {any} marks areas, for the first line @returns {any[]} a line for each group */
function lagSeries(marks) {
  const dashes = ["solid", "dashed", "dotted"];
  return data.lag.map((/** @type {any} */ group, /** @type {number} */ place) => {
    const tint = groupColour(place);
    return {
      type: "line", name: lagName(group), xAxisIndex: 3, yAxisIndex: 3, step: "end", showSymbol: false, symbol: "circle", symbolSize: 4,
      data: group.values.map((/** @type {number | null} */ value, /** @type {number} */ bin) => [START + bin * time.width_ms, value]),
      lineStyle: { width: 1.5, color: tint, type: dashes[Math.floor(place / 4) % 3] }, itemStyle: { color: tint }, ...(place ? {} : marks),
    };
  });
}

/** @param {any} group */
function lagName(group) {
  return `lag of ${group.name || "(none)"}`;
}

/** @param {number} ms @returns {string[]} lines about the rebalances and failovers then */
function bandsAt(ms) {
  const found = data.bands.filter((/** @type {any} */ band) => band.from_ms <= ms && ms < band.to_ms);
  return found.map((/** @type {any} */ band) => {
    const more = band.count > band.names.length ? ` and ${count(band.count - band.names.length)} more` : "";
    return `${band.kind}  ${band.names.join(", ")}${more}`;
  });
}

/** What the areas in the plots mean, of those that there are. */
function startAreas() {
  const kinds = [["rebalance", "rebalances"], ["failover", "failovers"]].filter(([kind]) => data.bands.some((/** @type {any} */ band) => band.kind === kind));
  const place = byId("areas");
  const draw = () => {
    const entries = kinds.map(([kind, name]) => [seriesColour(/** @type {any} */ (kind)), name]);
    for (const severity of ["problem", "warning"]) {
      if (data.findings.some((/** @type {any} */ one) => one.severity === severity && one.first_time)) entries.push([colour(severity), `${severity}s`]);
    }
    if (lostRanges().length) entries.push([colour("quiet"), "missing in the capture"]);
    place.replaceChildren(...(entries.length ? ["Areas: "] : []), ...entries.map(([tint, name]) => {
      const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.background = tint;
      return element("span", { class: "area" }, swatch, name);
    }));
  };
  drawings.push(draw);
}

/** The legend: a button for each line, which hides and shows it. @param {any} chart */
function startLines(chart) {
  const place = byId("lines");
  drawings.push(() => {
    const { series, legend } = chart.getOption();
    place.replaceChildren(...series.map((/** @type {any} */ one) => {
      const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.background = one.itemStyle.color;
      const made = button("", () => {
        const isShown = made.getAttribute("aria-pressed") === "false";
        chart.dispatchAction({ type: isShown ? "legendSelect" : "legendUnSelect", name: one.name });
        made.setAttribute("aria-pressed", String(isShown));
      });
      made.setAttribute("aria-pressed", String(legend[0].selected[one.name] !== false));
      made.append(swatch, element("span", {}, one.name));
      return made;
    }));
  });
}

/** @param {any[]} items of all lines at one time */
function timeTooltip(items) {
  if (!items.length) return "";
  const kinds = /** @type {Record<string, string>} */ ({ requests: "bytes", responses: "bytes", exchanges: "count", "with errors": "count", unanswered: "count" });
  const bin = items[0].dataIndex;
  const groups = new Set(data.lag.map(lagName));
  const lines = items.map((item) => `${item.seriesName}  ${shown(item.value[1], groups.has(item.seriesName) ? "count" : kinds[item.seriesName] || "ns")}`);
  lines.push(...bandsAt(items[0].value[0]));
  if (time.missing_bytes[bin]) lines.push(`missing in the capture  ${bytes(time.missing_bytes[bin])}`);
  return [clock(items[0].value[0]), ...lines].join("\n");
}

/** @param {number} from @param {number} to show this time in all plots */
function zoomTo(from, to) {
  if (!document.documentElement.dataset.ready) {
    later(() => zoomTo(from, to)); // plots that are not drawn yet have no axis to move
    return;
  }
  const width = Math.max(to - from, time.width_ms * 4);
  const middle = (from + to) / 2;
  const startValue = Math.max(START, middle - width / 2);
  const endValue = Math.min(END, middle + width / 2);
  for (const chart of timed) chart.dispatchAction({ type: "dataZoom", startValue, endValue });
  sayRange(startValue, endValue);
}

/** @param {number} from @param {number} to */
function sayRange(from, to) {
  const whole = from <= START && to >= END ? ", all of it" : "";
  byId("range").textContent = `${clock(from)} to ${clock(to).slice(11)} UTC (${duration((to - from) * 1e6)}${whole}). A point is ${duration(time.width_ms * 1e6)}.`;
}

/** @returns {[number, number]} the time that is shown */
function range() {
  const zoom = timed[0].getOption()?.dataZoom?.[0];
  return [zoom?.startValue ?? START, zoom?.endValue ?? END];
}

/** @param {number} by more than 1 shows more time @param {number} [shift] in widths */
function changeRange(by, shift = 0) {
  const [from, to] = range();
  const middle = (from + to) / 2 + shift * (to - from);
  const half = ((to - from) / 2) * by;
  zoomTo(Math.max(START, middle - half), Math.min(END, middle + half));
}

function startTime() {
  if (data.lag.length) byId("time-plot").classList.add("with-lag");
  startAreas();
  const chart = plot("time-plot");
  timed.push(chart);
  byId("time-plot").setAttribute("aria-label", "Bytes, exchanges, latency percentiles and lag of groups over time; the tables have their totals, rebalances and failovers");
  drawings.push(() => chart.setOption(timeOption(), { replaceMerge: ["series"] }));
  startLines(chart);
  chart.on("datazoom", () => follow(chart));
  byId("zoom").append(
    button("All", () => zoomTo(START, END), "Show the whole time"),
    button("+", () => changeRange(0.5), "Show less time"),
    button("−", () => changeRange(2), "Show more time"),
    button("←", () => changeRange(1, -0.5), "Earlier"),
    button("→", () => changeRange(1, 0.5), "Later"),
  );
  sayRange(START, END);
}

let isFollowing = false;

/** @param {any} leader the plot that was moved; the others show the same time */
function follow(leader) {
  if (isFollowing) return;
  isFollowing = true;
  const { startValue, endValue } = leader.getOption().dataZoom[0];
  for (const chart of timed) {
    if (chart !== leader) chart.dispatchAction({ type: "dataZoom", startValue, endValue });
  }
  sayRange(startValue, endValue);
  isFollowing = false;
}
