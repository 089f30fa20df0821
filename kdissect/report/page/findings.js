// Findings: a card each. Opening one moves the plots and lists the exchanges behind it.

const EVIDENCE = [
  ["time", "request", "text"], ["api", "API", "text"], ["client_id", "client id", "text"], ["broker", "broker", "text"],
  ["outcome", "outcome", "text"], ["error", "error", "text"], ["latency_ns", "latency", "ns"], ["queue_ns", "queue", "ns"],
  ["wait_ns", "long poll", "ns"], ["work_ns", "broker time", "ns"], ["request_packet", "request packet", "number"],
  ["response_packet", "response packet", "number"],
];

/** @param {any} finding @param {number} place */
function findingElement(finding, place) {
  const detail = element("div", { class: "detail", id: `detail-${place}` });
  detail.hidden = true;
  const head = button("", () => toggle(finding, place, head, detail));
  head.append(
    element("span", { class: "severity" }, finding.severity), element("span", { class: "sentence" }, finding.text),
    element("span", { class: "chevron", "aria-hidden": "true" }, "›"),
  );
  head.setAttribute("aria-expanded", "false");
  head.setAttribute("aria-controls", detail.id);
  return element("article", { class: `card ${finding.severity}`, "data-id": finding.id }, element("h3", {}, head), detail);
}

/** @param {any} finding @param {number} place @param {HTMLElement} head @param {HTMLElement} detail */
function toggle(finding, place, head, detail) {
  const isOpen = detail.hidden;
  detail.hidden = !isOpen;
  head.setAttribute("aria-expanded", String(isOpen));
  if (!isOpen) return;
  // Filled when it is visible: a plot needs the size of its place.
  if (!detail.childElementCount) fillDetail(finding, place, detail);
  showInPlots(finding);
}

/** @param {any} finding moves all plots to its time and entities */
function showInPlots(finding) {
  if (finding.first_time) {
    const [from, to] = rangeOf(finding);
    const margin = Math.max((to - from) * 0.5, time.width_ms * 5);
    zoomTo(from - margin, to + margin);
  }
  const named = (/** @type {string} */ one) => [finding.concerns[one] ?? []].flat().map(String);
  const isShown = heatOf("client", [...named("clients"), ...named("client")])
    || heatOf("topic", [...named("topics"), ...named("topic")])
    || heatOf("broker", [...named("brokers"), ...named("broker")])
    || heatOf("api", [...named("apis"), ...named("api")]);
  if (!isShown) heatOf("all", ["(others)"]);
}

/** @param {string} name @param {any} value of a finding, with its unit at the end of the name */
function fact(name, value) {
  const [, word = name, unit = ""] = /^(.*?)_(ns|ms|bytes)$/.exec(name) || [];
  const number = typeof value !== "number" ? String(value) : unit === "ns" ? duration(value) : unit === "ms" ? duration(value * 1e6) : unit === "bytes" ? bytes(value) : Number.isInteger(value) ? count(value) : digits(value);
  // What is shown may be rounded.
  /** @type {Record<string, string>} */
  const exact = typeof value === "number" ? { title: unit ? `${value} ${unit}` : String(value) } : {};
  return element("li", exact, element("b", {}, `${word.replaceAll("_", " ")} `), number);
}

/** @param {any} finding @param {number} place @param {HTMLElement} detail */
function fillDetail(finding, place, detail) {
  const facts = element("ul", { class: "facts", "aria-label": "Evidence" });
  facts.append(element("li", {}, element("b", {}, "id "), finding.id));
  if (finding.first_time) facts.append(element("li", {}, element("b", {}, "time "), finding.first_time));
  if (finding.packet !== null) facts.append(element("li", {}, element("b", {}, "packet "), String(finding.packet)));
  for (const [name, value] of Object.entries(finding.numbers)) if (value !== null) facts.append(fact(name, value));
  for (const [name, value] of Object.entries(finding.concerns)) {
    const text = [value].flat().map((one) => one ?? "(none)").join(", ");
    if (text) facts.append(element("li", {}, element("b", {}, `${name.replaceAll("_", " ")} `), text));
  }
  detail.append(facts);
  if (finding.next) detail.append(element("p", { class: "next" }, element("b", {}, "What to do: "), finding.next));
  if (finding.command) {
    const copier = button("Copy", () => copy(finding.command, copier), "Copy the command");
    detail.append(element("div", { class: "command" }, element("code", { tabindex: "0" }, finding.command), copier));
  }
  detail.append(evidenceElement(data.evidence[place]));
  const sequence = data.sequences.find((/** @type {any} */ one) => one.finding === place);
  if (sequence) sequenceElement(sequence, detail, "Around the first of them", "Messages of its connection, its group, and of followers where a leader waits for them.");
}

/** @param {{total: number, rows: any[]} | undefined} of */
function evidenceElement(of) {
  if (!of || !of.rows.length) return element("p", { class: "quiet" }, "No single exchange stands for this: the command shows more.");
  const title = `Exchanges of these clients, APIs and brokers at that time: ${of.total > of.rows.length ? `the ${of.rows.length} slowest of ${count(of.total)}` : count(of.total)}`;
  const head = element("tr", {}, ...EVIDENCE.map(([, name, kind]) => element("th", { scope: "col", class: kind === "text" ? "text" : "" }, name)));
  const body = element("tbody", {}, ...of.rows.map((row) => element("tr", {}, ...EVIDENCE.map(([key, , kind]) => {
    const made = element("td", { class: kind === "text" ? "text" : "" }, kind === "text" ? String(row[key] ?? "–") : shown(row[key], kind));
    if (key === "client_id") made.title = row[key];
    return made;
  }))));
  return element("div", {}, element("h4", {}, title), element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, element("table", {}, element("thead", {}, head), body)));
}

function startFindings() {
  const list = byId("finding-list");
  data.findings.forEach((/** @type {any} */ finding, /** @type {number} */ place) => list.append(findingElement(finding, place)));
  if (!data.findings.length) list.append(element("p", { class: "quiet" }, "No findings."));
}
