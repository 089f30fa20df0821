// The calendar of a site: a cell for each day, and a table that links to its page.

const days = tables.get("days");
const PATHS = days.columns.map((/** @type {any} */ column) => column.path);
const DAYS = days.rows.map((/** @type {Cell[]} */ cells) => Object.fromEntries(cells.map((cell, place) => [PATHS[place], cell])));
const DATED = DAYS.filter((/** @type {any} */ day) => /^\d{4}-\d\d-\d\d$/.test(day.day));
const MEASURES = { exchanges: "exchanges", errors: "errors", bytes: "bytes", problems: "problems found" };
/** @type {{by: keyof typeof MEASURES}} */
const calendar = { by: "exchanges" };

/** @returns {string[]} the months that have days */
function months() {
  return [...new Set(/** @type {string[]} */ (DATED.map((/** @type {any} */ day) => day.day.slice(0, 7))))].sort();
}

function calendarOption() {
  const all = months();
  const most = Math.max(1, ...DATED.map((/** @type {any} */ day) => day[calendar.by]));
  const bad = calendar.by === "errors" || calendar.by === "problems";
  const low = isDark() ? "#1d3a5f" : "#cfe1f7";
  const columns = Math.max(1, Math.floor(byId("calendar").clientWidth / 300));
  return {
    ...common(),
    tooltip: { ...common().tooltip, formatter: dayTooltip },
    visualMap: { show: false, min: 0, max: most, inRange: { color: [low, bad ? seriesColour("errors") : seriesColour("requests")] } },
    calendar: all.map((range, place) => ({
      range, orient: "vertical", left: 44 + (place % columns) * 300, top: 64 + Math.floor(place / columns) * 260, cellSize: [34, 30],
      yearLabel: { show: false }, monthLabel: { show: false },
      dayLabel: { firstDay: 1, color: colour("quiet") }, splitLine: { show: false },
      itemStyle: { color: "transparent", borderColor: colour("line") },
    })),
    title: all.map((range, place) => ({ text: range, left: 44 + (place % columns) * 300, top: 10 + Math.floor(place / columns) * 260, textStyle: { color: colour("ink"), fontSize: 14 } })),
    series: all.map((range, place) => ({
      type: "heatmap", coordinateSystem: "calendar", calendarIndex: place, name: range,
      data: DATED.filter((/** @type {any} */ day) => day.day.startsWith(range)).map((/** @type {any} */ day) => ({ value: [day.day, day[calendar.by]], day })),
      label: { show: true, color: colour("ink"), formatter: (/** @type {any} */ item) => item.value[0].slice(8) },
    })),
  };
}

/** @param {any} item */
function dayTooltip(item) {
  const { day } = item.data;
  return `${day.day}\n${count(day.exchanges)} exchanges, ${count(day.errors)} with errors\n${bytes(day.bytes)}\n${day.problems} problems, ${day.warnings} warnings${day.worst ? `\n${day.worst.slice(0, 100)}` : ""}`;
}

function startCalendar() {
  const place = byId("calendar");
  const rows = Math.ceil(months().length / Math.max(1, Math.floor(place.clientWidth / 300)));
  place.style.height = `${Math.max(rows, 1) * 260 + 60}px`;
  place.setAttribute("aria-label", "Calendar of days; the table below links to the page of each");
  const draw = () => chart.setOption(calendarOption(), { replaceMerge: ["series", "calendar", "title"] });
  const chart = plotIn(place, draw);
  chart.on("click", (/** @type {any} */ item) => { location.href = `${item.data.day.day}.html`; });
  drawings.push(draw);
  const by = /** @type {HTMLSelectElement} */ (element("select"));
  for (const [name, title] of Object.entries(MEASURES)) by.append(element("option", { value: name }, title));
  by.addEventListener("change", () => {
    calendar.by = /** @type {keyof typeof MEASURES} */ (by.value);
    draw();
  });
  byId("calendar-choice").append(element("label", {}, "colour by", by));
}

startTables();
startCalendar();
byId("folded").append(...data.folded.map((/** @type {string} */ one) => element("li", {}, one)));
startTheme();
startPrinting();
startFocus();
