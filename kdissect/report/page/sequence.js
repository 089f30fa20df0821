// Sequence diagrams: requests and responses between lifelines, in the order of their packets.

/** @typedef {{at: number, from: string, to: string, text: string, main: boolean, error: boolean}} Message */

/** @param {any} of a sequence of the page @returns {Message[]} */
function messagesOf(of) {
  /** @type {Message[]} */
  const found = [];
  for (const one of of.exchanges) {
    const [client, broker, main] = [one.client_id || "(no client id)", one.broker, one.exchange_id === of.main];
    const name = `${one.api || "response"}${one.api_version === null ? "" : ` v${one.api_version}`}`;
    if (one.request_packet !== null) found.push({ at: one.start_ms, from: client, to: broker, text: `${name}, packet ${one.request_packet}`, main, error: false });
    if (one.response_packet !== null && one.response_ms !== null) {
      const end = one.error && one.error !== "NONE" ? one.error : `${one.api || ""} answered`;
      const took = one.latency_ns === null ? "" : ` after ${duration(one.latency_ns)}`;
      found.push({ at: one.response_ms, from: broker, to: client, text: `${end}${took}, packet ${one.response_packet}`, main, error: Boolean(one.error && one.error !== "NONE") });
    }
  }
  return found.sort((one, other) => one.at - other.at);
}

/** @param {number} ms */
function since(ms) {
  return `+${ms.toFixed(ms < 1000 ? 2 : 0)} ms`;
}

/** @param {any} of @param {Message[]} messages */
function sequenceOption(of, messages) {
  const names = [...new Set(messages.flatMap((one) => [one.from, one.to]))];
  const brokers = new Set(of.exchanges.map((/** @type {any} */ one) => one.broker));
  names.sort((one, other) => Number(brokers.has(one)) - Number(brokers.has(other)));
  const look = axisLook();
  const first = messages[0].at;
  return {
    ...common(),
    grid: { left: 110, right: 70, top: 40, bottom: 14 },
    tooltip: { ...common().tooltip, formatter: (/** @type {any} */ item) => (item.data.message ? `${clock(item.data.message.at)}\n${item.data.message.from} → ${item.data.message.to}\n${item.data.message.text}` : "") },
    xAxis: { ...look, type: "category", position: "top", data: names, splitLine: { show: true, lineStyle: { color: colour("quiet"), opacity: 0.5 } }, axisTick: { show: false }, boundaryGap: false, axisLabel: { color: colour("ink"), fontWeight: 600, interval: 0, width: 130, overflow: "truncate" } },
    yAxis: { ...look, type: "category", inverse: true, data: messages.map((one) => since(one.at - first)), splitLine: { show: false } },
    series: [{
      type: "lines", coordinateSystem: "cartesian2d", symbol: ["none", "arrow"], symbolSize: 8,
      data: messages.map((one, place) => ({
        coords: [[names.indexOf(one.from), place], [names.indexOf(one.to), place]], message: one,
        lineStyle: { width: one.main ? 2.6 : 1.2, opacity: 1, curveness: 0, color: one.error ? seriesColour("errors") : one.main ? seriesColour("p99") : seriesColour("requests") },
        label: { show: true, position: "middle", formatter: () => one.text, color: colour("ink"), fontSize: 10.5, distance: 3 },
      })),
    }],
  };
}

/**
 * @param {any} of
 * @param {HTMLElement} place where the diagram and its text go
 * @param {string} title
 * @param {string} text
 */
function sequenceElement(of, place, title, text) {
  const messages = messagesOf(of);
  if (!messages.length) return;
  const canvas = element("div", { class: "plot", role: "img", "aria-label": "Sequence diagram; its messages are listed below" });
  canvas.style.height = `${60 + messages.length * 27}px`;
  // Wide enough for what is written on an arrow between two neighbours: on a phone it scrolls.
  const lines = new Set(messages.flatMap((one) => [one.from, one.to])).size;
  canvas.style.minWidth = `${180 + (lines - 1) * 200}px`;
  const said = of.left_out ? ` ${count(of.left_out)} more exchanges are not shown.` : "";
  const list = element("ol");
  for (const one of messages) list.append(element("li", {}, `${clock(one.at)} ${one.from} → ${one.to}: ${one.text}`));
  if (title) place.append(element("h4", {}, title));
  place.append(
    element("p", { class: "quiet" }, `${text}${said}`),
    element("div", { class: "panel wide", tabindex: "0", role: "region", "aria-label": "Sequence diagram" }, canvas),
    element("details", { class: "meanings" }, element("summary", {}, "The messages as a list"), list),
  );
  const chart = plotIn(canvas, () => {});
  const draw = () => chart.setOption(sequenceOption(of, messages), { replaceMerge: ["series"] });
  drawings.push(draw);
  draw();
  return () => {
    drawings.splice(drawings.indexOf(draw), 1);
    chart.dispose();
  };
}

/** The section with all diagrams, one at a time. */
function startSequences() {
  const found = data.sequences.filter((/** @type {any} */ one) => messagesOf(one).length);
  byId("sequences").hidden = !found.length;
  if (!found.length) return;
  const which = /** @type {HTMLSelectElement} */ (element("select"));
  found.forEach((/** @type {any} */ one, /** @type {number} */ place) => which.append(element("option", { value: String(place) }, one.title)));
  byId("sequence-choice").append(element("label", {}, "Messages of ", which));
  const place = byId("sequence-place");
  /** @type {(() => void) | undefined} */
  let end;
  const show = () => {
    end?.();
    place.replaceChildren();
    end = sequenceElement(found[Number(which.value)], place, "", "Requests and responses in the order of their packets.");
  };
  which.addEventListener("change", show);
  later(show); // with the theme that is set by then
}
