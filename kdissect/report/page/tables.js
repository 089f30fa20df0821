// Tables that sort, search and copy.

const FEW_ROWS = 25;
/** @type {Map<string, any>} tables by name */
const tables = new Map(data.tables.map((/** @type {any} */ one) => [one.name, one]));

/**
 * @param {Cell} one
 * @param {Cell} other
 * @returns {number} by value; nothing comes last
 */
function compared(one, other) {
  if (one === null) return other === null ? 0 : 1;
  if (other === null) return -1;
  if (typeof one === "number" && typeof other === "number") return other - one;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

/** @param {Cell} value as a cell of CSV that no spreadsheet runs */
function csvCell(value) {
  if (value === null) return "";
  const text = String(value);
  const safe = typeof value === "string" && /^\s*[=+\-@\t\r\u2212\uff1d\uff0b\uff0d\uff20]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

/** @param {any} of @param {Cell[][]} rows @returns {string} */
function csv(of, rows) {
  const lines = [of.columns.map((/** @type {any} */ column) => column.path), ...rows];
  return `${lines.map((cells) => cells.map(csvCell).join(",")).join("\r\n")}\r\n`;
}

/** @param {any} of a table of the page @param {number} [level] of its heading */
function tableElement(of, level = 3) {
  const state = { sorted: -1, down: true, search: "", all: false };
  const body = element("tbody");
  const heads = of.columns.map((/** @type {any} */ column, /** @type {number} */ place) => headCell(column, () => {
    state.down = state.sorted === place ? !state.down : true;
    state.sorted = place;
    fill();
  }));
  const number = element("span", { class: "quiet", role: "status" });
  const more = button("", () => {
    state.all = !state.all;
    fill();
  });
  /** @returns {Cell[][]} */
  const chosen = () => chosenRows(of, state);
  const fill = () => {
    const rows = chosen();
    body.replaceChildren(...rows.slice(0, state.all ? rows.length : FEW_ROWS).map((cells) => rowElement(of, cells)));
    heads.forEach((/** @type {HTMLElement} */ head, /** @type {number} */ place) => {
      head.setAttribute("aria-sort", place !== state.sorted ? "none" : of.columns[place].kind === "text" ? (state.down ? "ascending" : "descending") : (state.down ? "descending" : "ascending"));
    });
    const whole = of.all_rows || of.rows.length;
    number.textContent = rows.length === whole ? `${count(whole)} rows` : `${count(rows.length)} of ${count(whole)} rows`;
    more.hidden = rows.length <= FEW_ROWS;
    more.textContent = state.all ? "Show fewer" : `Show all ${count(rows.length)}`;
  };
  const search = /** @type {HTMLInputElement} */ (element("input", { type: "search", placeholder: "Search", "aria-label": `Search ${of.title}` }));
  search.addEventListener("input", () => {
    state.search = search.value.toLowerCase();
    fill();
  });
  const copier = button("Copy CSV", () => copy(csv(of, chosen()), copier));
  fill();
  return element(
    "div", { class: "table", id: `table-${of.name}` },
    element("div", { class: "head" }, element(`h${level}`, {}, of.title), element("div", { class: "tools" }, number, search, copier)),
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": of.title }, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body)),
    more, meanings(of),
  );
}

/** @param {any} of @param {{sorted: number, down: boolean, search: string}} state @returns {Cell[][]} */
function chosenRows(of, state) {
  const rows = of.rows.filter((/** @type {Cell[]} */ cells) => !state.search || cells.some((cell) => String(cell).toLowerCase().includes(state.search)));
  if (state.sorted < 0) return rows;
  const sign = state.down ? 1 : -1;
  return rows.sort((/** @type {Cell[]} */ one, /** @type {Cell[]} */ other) => sign * compared(one[state.sorted], other[state.sorted]));
}

/** @param {any} column @param {() => void} sort */
function headCell(column, sort) {
  const isText = column.kind === "text" || column.kind === "page";
  const by = button(column.title, sort);
  by.title = column.meaning;
  return element("th", { scope: "col", "aria-sort": "none", class: isText ? "text" : "" }, by);
}

/** @param {any} of @param {Cell[]} cells */
function rowElement(of, cells) {
  const unitPlace = of.columns.findIndex((/** @type {any} */ column) => column.path === "unit");
  return element("tr", {}, ...cells.map((cell, place) => {
    const { kind } = of.columns[place];
    if (kind === "page") return element("td", { class: "text" }, element("a", { href: `${cell}.html` }, String(cell)));
    const made = element("td", { class: kind === "text" ? "text" : "" }, cell === "" ? "(none)" : kind === "unit" ? inUnit(/** @type {number | null} */ (cell), String(cells[unitPlace])) : shown(cell, kind));
    if (typeof cell === "string" && cell.length > 40) made.title = cell;
    return made;
  }));
}

/** @param {any} of */
function meanings(of) {
  const list = element("dl");
  for (const column of of.columns) list.append(element("dt", {}, column.title), element("dd", {}, column.meaning));
  return element("details", { class: "meanings" }, element("summary", {}, `What the columns of ${of.title} mean`), list);
}

/** Tables of the network have their place beside its map. */
const OF_NETWORK = ["clients_brokers", "brokers_topics", "clients_groups"];

function startTables() {
  for (const of of data.tables) {
    if (!of.rows.length) continue;
    byId(OF_NETWORK.includes(of.name) ? "network-tables" : "table-list").append(tableElement(of));
  }
}
