// Numbers and times as text, and elements of the page. Texts are never parsed as HTML.

/** @typedef {string | number | null | boolean} Cell */

/**
 * An element. `given` are attributes; children are elements, or texts.
 * @param {string} tag
 * @param {Record<string, string>} [given]
 * @param {...(Node | string)} children
 * @returns {HTMLElement}
 */
function element(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/**
 * @param {string} id
 * @returns {HTMLElement}
 */
function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found;
}

/**
 * @param {string} text
 * @param {() => void} act
 * @param {string} [label] what a screen reader says instead of the text
 */
function button(text, act, label) {
  const made = element("button", { type: "button", ...(label ? { "aria-label": label } : {}) }, text);
  made.addEventListener("click", act);
  return made;
}

/** @param {number} value */
function digits(value) {
  return Number(value.toPrecision(3)).toString();
}

/** @param {number} value a count with digits in groups of three */
function count(value) {
  return value.toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** @param {number} value */
function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  let left = value;
  while (Math.abs(left) >= 999.5 && unit < units.length - 1) {
    left /= 1000;
    unit += 1;
  }
  return `${digits(left)} ${units[unit]}`;
}

/** @param {number} ns */
function duration(ns) {
  if (ns >= 60e9) {
    const seconds = Math.round(ns / 1e9);
    if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} m`;
    return `${Math.floor(seconds / 60)} m ${seconds % 60} s`;
  }
  for (const [unit, name] of /** @type {[number, string][]} */ ([[1e9, "s"], [1e6, "ms"], [1e3, "µs"]])) {
    if (ns >= unit) return `${digits(ns / unit)} ${name}`;
  }
  return `${Math.round(ns)} ns`;
}

/** @param {number} ms since 1970 */
function clock(ms) {
  return new Date(ms).toISOString().replace("T", " ").replace("Z", "");
}

/**
 * A cell as people read it.
 * @param {Cell} value
 * @param {string} kind
 */
function shown(value, kind) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (kind === "bytes") return bytes(value);
  if (kind === "ns") return duration(value);
  if (kind === "share") return `${digits(100 * value)} %`;
  if (kind === "ratio") return digits(value);
  return kind === "count" ? count(value) : String(value);
}

/** @param {number | null} value @param {string} unit ns, share, 1/s or bytes/s */
function inUnit(value, unit) {
  if (value === null) return "–";
  const size = Math.abs(value);
  const text = unit === "ns" ? duration(size) : unit === "share" ? `${digits(100 * size)} %` : unit === "bytes/s" ? `${bytes(size)}/s` : `${digits(size)}/s`;
  return `${value < 0 ? "−" : ""}${text}`;
}

/** @param {string} name @param {string} value @param {string} [more] @param {boolean} [bad] */
function total(name, value, more = "", bad = false) {
  const number = element("dd", {}, value);
  if (more) number.append(element("span", { class: "more" }, more));
  return element("div", bad ? { class: "bad" } : {}, element("dt", {}, name), number);
}

/**
 * Copy a text; without the clipboard, as in a file opened from disk in some browsers, by selecting.
 * @param {string} text
 * @param {HTMLElement} by the button, which says so
 */
function copy(text, by) {
  const before = by.textContent || "";
  const area = document.createElement("textarea");
  area.value = text;
  area.setAttribute("readonly", "");
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  by.focus();
  by.textContent = done ? "Copied" : "Not copied";
  setTimeout(() => { by.textContent = before; }, 1200);
}
