// What changed: a point with its interval for each row, after against before.

const DRAWN = 60;
const of = tables.get("changes");
const NAMES = of.columns.map((/** @type {any} */ column) => column.path);
const CHANGES = of.rows.map((/** @type {Cell[]} */ cells) => Object.fromEntries(cells.map((cell, place) => [NAMES[place], cell])));
const BETTER = ["faster"];
const WORSE = ["slower"];

/** @param {any} row @returns {string} what is compared */
function nameOf(row) {
  const groups = data.by.map((/** @type {string} */ name) => row[name] ?? "(none)");
  return [...groups, row.measure, row.what].join(" · ");
}

/** @param {any} row @returns {boolean} whether it has a ratio that a logarithmic axis can show */
function hasRatio(row) {
  return row.ratio > 0 && row.before > 0;
}

/** @param {any} row @returns {[number, number, number]} middle, low and high on the axis of its plot */
function placesOf(row) {
  if (!hasRatio(row)) return [row.difference, row.low ?? row.difference, row.high ?? row.difference];
  const at = (/** @type {number | null} */ difference) => (difference === null ? row.ratio : Math.max((row.before + difference) / row.before, 0.01));
  return [row.ratio, at(row.low), at(row.high)];
}

/** @param {any} row */
function verdictColour(row) {
  if (WORSE.includes(row.verdict) || (row.measure === "error" && ["more", "new"].includes(row.verdict))) return seriesColour("errors");
  if (BETTER.includes(row.verdict) || (row.measure === "error" && ["less", "gone"].includes(row.verdict))) return seriesColour("responses");
  return data.changed.includes(row.verdict) ? seriesColour("requests") : seriesColour("max");
}

/** @param {any} _params @param {any} api a row: place, middle, low, high */
function intervalShape(_params, api) {
  const [low, high] = [api.coord([api.value(2), api.value(0)]), api.coord([api.value(3), api.value(0)])];
  const style = { stroke: api.visual("color"), lineWidth: 2, fill: "none" };
  const line = (/** @type {number} */ x1, /** @type {number} */ y1, /** @type {number} */ x2, /** @type {number} */ y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
  return { type: "group", children: [
    line(low[0], low[1], high[0], high[1]), line(low[0], low[1] - 5, low[0], low[1] + 5), line(high[0], high[1] - 5, high[0], high[1] + 5),
  ] };
}

/** @param {any} item */
function changeTooltip(item) {
  const row = item.data.row;
  const bounds = row.low === null || row.high === null ? "no interval is known" : `95 %: ${inUnit(row.low, row.unit)} to ${inUnit(row.high, row.unit)}`;
  const ratio = row.ratio === null ? "" : ` (×${digits(row.ratio)})`;
  return `${nameOf(row)}\n${row.verdict}: ${inUnit(row.before, row.unit)} → ${inUnit(row.after, row.unit)}${ratio}\ndifference ${inUnit(row.difference, row.unit)}\n${bounds}`;
}

/** @param {any[]} rows @param {string} unit of the axis; "" for ratios @param {number} width */
function changesOption(rows, unit, width) {
  const look = axisLook();
  const item = (/** @type {any} */ row, /** @type {number[]} */ value) => ({ value, row, itemStyle: { color: verdictColour(row) } });
  const values = rows.map(placesOf);
  const room = Math.min(420, width * 0.42);
  return {
    ...common(),
    grid: { left: room + 12, right: 26, top: 34, bottom: 26 },
    tooltip: { ...common().tooltip, trigger: "item", formatter: changeTooltip },
    xAxis: {
      ...look, position: "top", ...(unit ? { type: "value" } : { type: "log", min: Math.min(0.5, ...values.map((one) => one[1])), max: Math.max(2, ...values.map((one) => one[2])) }),
      axisLabel: { ...look.axisLabel, formatter: (/** @type {number} */ value) => (unit ? inUnit(value, unit) : `×${digits(value)}`) },
    },
    yAxis: { ...look, type: "category", inverse: true, data: rows.map(nameOf), axisLabel: { color: colour("ink"), fontSize: 11.5, width: room, overflow: "truncate", interval: 0 } },
    series: [
      { type: "custom", name: "interval", renderItem: intervalShape, data: rows.map((row, place) => item(row, [place, ...values[place]])), encode: { x: [1, 2, 3], y: 0 }, clip: true },
      {
        type: "scatter", name: "change", symbolSize: 9, data: rows.map((row, place) => item(row, [values[place][0], place])),
        markLine: { silent: true, symbol: "none", label: { show: false }, lineStyle: { color: colour("quiet"), type: "dashed" }, data: [{ xAxis: unit ? 0 : 1 }] },
      },
    ],
  };
}

/** @param {string} title @param {any[]} rows @param {string} unit @param {number} number of the plot */
function changesPlot(title, rows, unit, number) {
  const shownRows = rows.slice(0, DRAWN);
  const place = element("div", { class: "plot", role: "img", id: `changes-plot-${number}`, "aria-label": `${title}; the table below has the same rows` });
  place.style.height = `${70 + shownRows.length * 24}px`;
  const more = rows.length > DRAWN ? `The first ${DRAWN} of ${count(rows.length)}; the table has all. ` : "";
  byId("plots").append(
    element("h3", {}, title),
    element("p", { class: "quiet" }, `${more}${unit ? "After minus before" : "After divided by before; the dashed line is no change"}. A line is the 95 % interval; without one, none is known.`),
    element("div", { class: "panel" }, place),
  );
  const draw = () => chart.setOption(changesOption(shownRows, unit, chart.getWidth()), { replaceMerge: ["series"] });
  const chart = plotIn(place, draw);
  drawings.push(draw);
}

function startSides() {
  for (const side of data.sides) {
    const said = `${count(side.exchanges)} exchanges in ${duration(side.last_ns - side.first_ns)} from ${clock(Math.floor(side.first_ns / 1e6))} UTC`;
    byId("when").append(element("span", { class: "side" }, element("b", {}, side.name), ` ${side.title}: ${said}`));
  }
  for (const [verdict, many] of Object.entries(data.verdicts)) byId("totals").append(total(verdict, count(many), "comparisons"));
}

function startChanges() {
  const ratios = CHANGES.filter(hasRatio);
  if (ratios.length) changesPlot("Ratios", ratios, "", 0);
  [["ns", "Times"], ["share", "Shares that were or became 0"], ["1/s", "Rates that were or became 0"], ["bytes/s", "Bytes that were or became 0"]].forEach(([unit, title], number) => {
    const rows = CHANGES.filter((/** @type {any} */ row) => row.unit === unit && !hasRatio(row));
    if (rows.length) changesPlot(title, rows, unit, number + 1);
  });
  if (!CHANGES.length) byId("plots").append(element("p", {}, "Nothing changed beyond chance and the least difference that was asked for."));
}

startSides();
startChanges();
startTables();
byId("folded").append(...data.folded.map((/** @type {string} */ one) => element("li", {}, one)));
startTheme();
startPrinting();
startFocus();
