// A served page looks whether there are new rows, and loads itself again as the reader has it.

const VIEW = "kdissect view";

/** Where the reader is: range of time unless it is all, open findings, scroll, theme. */
function saveView() {
  const [from, to] = range();
  const isWhole = from <= START && to >= END;
  const open = [...document.querySelectorAll(".card")].filter((card) => card.querySelector('[aria-expanded="true"]')).map((card) => card.getAttribute("data-id"));
  sessionStorage.setItem(VIEW, JSON.stringify({ range: isWhole ? null : [from, to], open, scroll: scrollY, dark: isDark() }));
}

function restoreView() {
  const saved = sessionStorage.getItem(VIEW);
  if (!saved) return;
  sessionStorage.removeItem(VIEW);
  const view = JSON.parse(saved);
  if (view.dark !== isDark()) setTheme(view.dark);
  // Numbers in sentences change; their ids stay.
  for (const card of document.querySelectorAll(".card")) {
    const place = view.open.indexOf(card.getAttribute("data-id"));
    if (place < 0) continue;
    view.open.splice(place, 1);
    card.querySelector("button")?.click();
  }
  setTimeout(() => {
    if (view.range) zoomTo(view.range[0], view.range[1]);
    else zoomTo(START, END);
    scrollTo(0, view.scroll);
  });
}

function startRenewing() {
  if (!data.renewed) return;
  const said = element("p", { class: "quiet", role: "status", id: "renewed" }, "Renews itself.");
  byId("when").after(said);
  restoreView();
  setInterval(async () => {
    const answer = await fetch("state", { cache: "no-store" }).catch(() => null);
    if (!answer || !answer.ok) {
      said.textContent = "Not renewed: kdissect does not answer any more.";
      return;
    }
    if ((await answer.text()) === data.renewed.state) return;
    saveView();
    location.reload();
  }, data.renewed.every_ms);
}
