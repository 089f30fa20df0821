"""A walk through a page by Tab: where the focus is, how it looks, and what it may not do."""

from typing import Any

# All controls that can be seen, in the order of the document.
STOPS = """window.stops = [
    ...document.querySelectorAll("a[href], button, input, select, summary, [tabindex]"),
  ].filter(one => one.tabIndex >= 0 && one.checkVisibility({visibilityProperty: true}))
  .filter(one => !one.disabled), window.stops.length"""
# The control with the focus: its place among them, and what is wrong with how it looks.
FOCUSED = """(() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const page = document.documentElement, wrong = [];
  const style = getComputedStyle(one), box = one.getBoundingClientRect();
  const line = parseFloat(style.outlineWidth), away = parseFloat(style.outlineOffset) + line;
  if (style.outlineStyle === "none" || line < 2) wrong.push("no outline");
  const [left, right] = [Math.max(box.left, 0), Math.min(box.right, page.clientWidth)];
  const [top, bottom] = [Math.max(box.top, 0), Math.min(box.bottom, innerHeight)];
  if (right <= left || bottom <= top) wrong.push("outside of the window");
  for (let at = one.parentElement; at !== document.body; at = at.parentElement) {
    if (getComputedStyle(at).overflowX === "visible") continue;
    const clip = at.getBoundingClientRect();
    const fits = box.width + 2 * away <= clip.width && box.height + 2 * away <= clip.height;
    const isIn = box.left - away >= clip.left - 1 && box.right + away <= clip.right + 1
      && box.top - away >= clip.top - 1 && box.bottom + away <= clip.bottom + 1;
    if (fits ? !isIn : away > 0) wrong.push("outline is cut");
  }
  const above = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
  if (above && !one.contains(above) && !above.contains(one)) wrong.push("covered");
  const name = one.ariaLabel || one.labels?.[0]?.textContent || one.textContent;
  if (!name.trim()) wrong.push("no name");
  const what = `${one.tagName} ${name.trim().slice(0, 60)}`;
  return {place: window.stops.indexOf(one), what, wrong};
})()"""


def faults(seen: list[dict[str, Any] | None], number: int) -> list[str]:
    """What is wrong: a control that is not reached once, in the order of the document, or hidden.

    `seen` has one more, after which the focus is out of the page, or at its beginning.
    """
    *stops, after = seen
    found = [f"{one['what']}: {why}" for one in stops if one is not None for why in one["wrong"]]
    places = [None if one is None else one["place"] for one in stops]
    found += [
        f"{place} in place of {n}: {one and one['what']}"
        for n, (place, one) in enumerate(zip(places, stops, strict=True))
        if place != n
    ]
    if len(places) != number or (after is not None and after["place"]):
        found.append(f"{len(places)} of {number}, then {after}")
    return found
