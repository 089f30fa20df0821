// The map of groups, clients, brokers and topics.

const SHOWN_NAMES = 14;
/** @type {{table: string, kinds: [string, string]}[]} tables of pairs, and what their ends are */
const PAIRS = [
  { table: "clients_groups", kinds: ["client", "group"] },
  { table: "clients_brokers", kinds: ["client", "broker"] },
  { table: "brokers_topics", kinds: ["broker", "topic"] },
];
/** @type {{search: string, errors: boolean, by: string}} */
const network = { search: "", errors: false, by: "errors" };

/** @param {string} name of a table of pairs @returns {any[]} its rows as objects */
function pairsOf(name) {
  const of = tables.get(name);
  if (!of) return [];
  const paths = of.columns.map((/** @type {any} */ column) => column.path);
  return of.rows.map((/** @type {Cell[]} */ cells) => Object.fromEntries(cells.map((cell, place) => [paths[place], cell])));
}

/** @param {string} name */
function isSearched(name) {
  return name.toLowerCase().includes(network.search);
}

/** @returns {{kinds: [string, string], pair: any}[]} the pairs that the filters leave */
function chosenPairs() {
  const every = PAIRS.flatMap(({ table, kinds }) => pairsOf(table).map((pair) => ({ kinds, pair })));
  return every.filter(({ pair }) => (!network.errors || pair.errors) && (!network.search || isSearched(pair.from) || isSearched(pair.to)));
}

/** @param {any} pair */
function pairColour(pair) {
  if (network.by === "errors") {
    const part = pair.errors / Math.max(pair.exchanges, 1);
    return part > 0.1 ? seriesColour("errors") : part > 0 ? seriesColour("unanswered") : seriesColour("responses");
  }
  const p99 = pair.p99_ns || 0;
  return p99 >= 1e9 ? seriesColour("errors") : p99 >= 1e8 ? seriesColour("unanswered") : seriesColour("responses");
}

function networkOption() {
  const pairs = chosenPairs();
  /** @type {Record<string, Map<string, number>>} */
  const sizes = { group: new Map(), client: new Map(), broker: new Map(), topic: new Map() };
  for (const { kinds, pair } of pairs) {
    [pair.from, pair.to].forEach((name, end) => {
      // What a client exchanges for its group is part of what it exchanges with brokers.
      const isPart = kinds[end] === "client" && kinds[1] === "group";
      sizes[kinds[end]].set(name, (sizes[kinds[end]].get(name) || 0) + (isPart ? 0 : pair.bytes + 1));
    });
  }
  const columns = Object.entries(sizes).filter(([kind, of]) => kind !== "group" || of.size);
  const nodes = columns.flatMap(([kind, of], column) => nodesOf(kind, of, column / (columns.length - 1), columns.length));
  const known = new Set(nodes.map((node) => node.id));
  const most = Math.max(1, ...pairs.map(({ pair }) => pair.bytes));
  const links = pairs.map(({ kinds, pair }) => ({
    source: `${kinds[0]} ${pair.from}`, target: `${kinds[1]} ${pair.to}`, value: pair,
    lineStyle: { width: 1 + 9 * Math.sqrt(pair.bytes / most), color: pairColour(pair), opacity: 0.6, curveness: 0.08 },
  })).filter((link) => known.has(link.source) && known.has(link.target));
  const left = [...Object.values(sizes)].reduce((sum, of) => sum + of.size, 0) - nodes.length;
  byId("network-text").textContent = `${columns.length > 3 ? "Groups at the left, then their clients, brokers, and topics at the right" : "Clients at the left, brokers in the middle, topics at the right"}. The width of a line is its bytes, its colour ${network.by === "errors" ? "the share of errors: none, some, more than 10 %" : "the p99 of latency: below 100 ms, below 1 s, more"}.${left > 0 ? ` ${count(left)} names with fewer bytes are only in the tables.` : ""}`;
  return {
    ...common(),
    tooltip: { ...common().tooltip, formatter: networkTooltip },
    series: [{
      type: "graph", layout: "none", roam: false, left: mapRoom(), right: mapRoom(), top: 24, bottom: 16, data: nodes, links,
      emphasis: { focus: "adjacency", lineStyle: { opacity: 0.9 } }, edgeSymbol: ["none", "none"],
    }],
  };
}

/** @returns {number} the width of the map, which on paper is not that of its place */
function mapWidth() {
  const place = byId("network-plot");
  return echarts.getInstanceByDom(place)?.getWidth() || place.clientWidth;
}

/** Width of the names beside the map. */
function mapRoom() {
  return Math.min(240, Math.max(90, mapWidth() / 3.8));
}

/** @type {Record<string, keyof typeof SERIES.light>} */
const NODE_COLOURS = { group: "failover", client: "exchanges", broker: "p95", topic: "responses" };

/**
 * @param {string} kind @param {Map<string, number>} of
 * @param {number} across where its column is, from 0 at the left to 1 @param {number} columns
 * @returns {any[]}
 */
function nodesOf(kind, of, across, columns) {
  const names = [...of].sort((one, other) => other[1] - one[1]).slice(0, SHOWN_NAMES);
  const width = mapWidth();
  const height = byId("network-plot").clientHeight;
  const room = mapRoom();
  const between = (width - 2 * room) / (columns - 1);
  const isAbove = kind === "broker" || (kind === "client" && across > 0 && between < 120);
  return names.map(([name, size], place) => ({
    id: `${kind} ${name}`, name: name || "(none)", kind, size,
    x: room + across * (width - 2 * room), y: ((place + 0.5) / names.length) * height,
    symbol: "roundRect", symbolSize: [10, isAbove ? 8 : 16],
    itemStyle: { color: seriesColour(NODE_COLOURS[kind]) },
    label: {
      show: true, position: across === 1 ? "right" : isAbove ? "top" : "left", color: colour("ink"), fontSize: 11, overflow: "truncate",
      width: isAbove ? Math.max(110, between - 24) : across % 1 ? between - 24 : room - 20, formatter: "{b}",
      ...(across % 1 ? { textBorderColor: colour("panel"), textBorderWidth: 3 } : {}),
    },
  }));
}

/** @param {any} item */
function networkTooltip(item) {
  if (item.dataType === "node") return `${item.data.kind} ${item.data.name}\n${bytes(item.data.size)}`;
  const pair = item.data.value;
  return `${pair.from || "(none)"} – ${pair.to || "(none)"}\n${count(pair.exchanges)} exchanges, ${count(pair.errors)} with errors\n${bytes(pair.bytes)}\np50 ${shown(pair.p50_ns, "ns")}, p99 ${shown(pair.p99_ns, "ns")}, max ${shown(pair.max_ns, "ns")}`;
}

function startNetwork() {
  byId("network-plot").setAttribute("aria-label", "Map of groups, clients, brokers and topics; the tables below have the same rows");
  const draw = () => chart.setOption(networkOption(), { replaceMerge: ["series"] });
  const chart = plotIn(byId("network-plot"), draw);
  drawings.push(draw);
  const search = /** @type {HTMLInputElement} */ (element("input", { type: "search", placeholder: "Filter names", "aria-label": "Filter names of the map" }));
  search.addEventListener("input", () => {
    network.search = search.value.toLowerCase();
    draw();
  });
  const errors = /** @type {HTMLInputElement} */ (element("input", { type: "checkbox" }));
  errors.addEventListener("change", () => {
    network.errors = errors.checked;
    draw();
  });
  const by = /** @type {HTMLSelectElement} */ (element("select", {}, element("option", { value: "errors" }, "errors"), element("option", { value: "latency" }, "latency")));
  by.addEventListener("change", () => {
    network.by = by.value;
    draw();
  });
  byId("network-choice").append(search, element("label", {}, errors, "only with errors"), element("label", {}, "colour by", by));
}
