// The order in which the page comes together.

function startTotals() {
  if (data.index) document.querySelector("nav")?.prepend(element("a", { href: data.index }, "All days"));
  const { totals, network: of, balance } = data;
  byId("when").textContent = totals.first_time ? `${totals.first_time.replace("T", " ")} to ${totals.last_time.replace("T", " ")} (${duration((Date.parse(cutToMs(totals.last_time)) - Date.parse(cutToMs(totals.first_time))) * 1e6)})` : "no packets of Kafka";
  const answered = totals.outcomes.answered || 0;
  byId("totals").append(
    total("Exchanges", count(totals.exchanges), `${count(answered)} answered`),
    total("With errors", count(totals.with_errors), totals.exchanges ? `${digits((100 * totals.with_errors) / totals.exchanges)} % of exchanges` : "", totals.with_errors > 0),
    total("Connections", count(totals.connections)),
    total("Requests", bytes(totals.request_bytes)),
    total("Responses", bytes(totals.response_bytes)),
    total("Packets", count(balance.packets || of.packets), `${count(of.retransmitted_segments)} retransmitted`),
    total("Missing in the capture", bytes(of.missing_bytes), "", of.missing_bytes > 0),
  );
}

function startFolded() {
  const said = [
    "Percentiles are exact up to a quarter of a million exchanges, and within 0.4 % above; a cell of the heat map spans 33 %.",
    "Record keys, values and headers are not in this page.",
    ...data.folded,
  ];
  byId("folded").append(...said.map((/** @type {string} */ one) => element("li", {}, one)));
}

/** One plot alone, as a notebook shows it; `option` is merged into its own. */
function startAlone() {
  document.body.classList.add("alone");
  byId(data.alone.section).classList.add("chosen");
  /** @type {Record<string, [() => void, string]>} */
  const starts = { time: [startTime, "time-plot"], latency: [startHeat, "heat-plot"], network: [startNetwork, "network-plot"] };
  const [start, id] = starts[data.alone.section];
  start();
  const { by, name, part, option } = data.alone;
  if (by) heatOf(by, [name]);
  if (part) heatPart(part);
  drawings.push(() => echarts.getInstanceByDom(byId(id))?.setOption(option));
}

function startAll() {
  startTotals();
  startFindings();
  startTime();
  startHeat();
  startTables();
  startNetwork();
  startSequences();
  startFolded();
}

if (data.alone) startAlone();
else startAll();
startTheme();
startPrinting();
startFocus();
startRenewing();
