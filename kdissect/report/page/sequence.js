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

/** @param {Message} one @param {any} api the places of its ends, and its row */
function arrow(one, api) {
  const [[from, y], [to]] = [api.coord([api.value(0), api.value(2)]), api.coord([api.value(1), api.value(2)])];
  const tint = one.error ? seriesColour("errors") : one.main ? seriesColour("p99") : seriesColour("requests");
  const back = to > from ? -9 : 9;
  return { type: "group", children: [
    { type: "line", shape: { x1: from, y1: y, x2: to, y2: y }, style: { stroke: tint, lineWidth: one.main ? 2.6 : 1.2 } },
    { type: "polygon", shape: { points: [[to, y], [to + back, y - 4], [to + back, y + 4]] }, style: { fill: tint } },
    { type: "text", style: { text: one.text, x: (from + to) / 2, y: y - 4, align: "center", verticalAlign: "bottom", fill: colour("ink"), backgroundColor: colour("panel"), padding: [0, 3], fontSize: 10.5 } },
  ] };
}

/** @param {any} of @param {Message[]} messages @param {number} width */
function sequenceOption(of, messages, width) {
  const names = [...new Set(messages.flatMap((one) => [one.from, one.to]))];
  const brokers = new Set(of.exchanges.map((/** @type {any} */ one) => one.broker));
  names.sort((one, other) => Number(brokers.has(one)) - Number(brokers.has(other)));
  const look = axisLook();
  const first = messages[0].at;
  const room = (width - 180) / Math.max(names.length - 1, 1);
  return {
    ...common(),
    grid: { left: 110, right: 70, top: 40, bottom: 14 },
    tooltip: { ...common().tooltip, formatter: (/** @type {any} */ item) => (item.data.message ? `${clock(item.data.message.at)}\n${item.data.message.from} → ${item.data.message.to}\n${item.data.message.text}` : "") },
    xAxis: { ...look, type: "category", position: "top", data: names, splitLine: { show: true, lineStyle: { color: colour("quiet"), opacity: 0.5 } }, axisTick: { show: false }, boundaryGap: false, axisLabel: { color: colour("ink"), fontWeight: 600, interval: 0, width: Math.min(130, Math.max(room - 8, 20)), overflow: "truncate" } },
    yAxis: { ...look, type: "category", inverse: true, data: messages.map((one) => since(one.at - first)), splitLine: { show: false } },
    series: [{
      type: "custom", name: "messages", renderItem: (/** @type {any} */ params, /** @type {any} */ api) => arrow(messages[params.dataIndex], api), encode: { x: [0, 1], y: 2 },
      data: messages.map((one, place) => ({ value: [names.indexOf(one.from), names.indexOf(one.to), place], message: one })),
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
  const draw = () => chart.setOption(sequenceOption(of, messages, chart.getWidth()), { replaceMerge: ["series"] });
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
