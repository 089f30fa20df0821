"""Pages as PDF, which Chromium prints and PDFium reads: nothing is lost, cut, dark or empty."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kdissect.text.escape import escaped
from tests.report.pages import QUICKSTART, findings_of, hostile_capture, written
from tests.report.test_browser import Opens
from tests.report.test_numbers import CAPTURES, data_of

pdfium = pytest.importorskip("pypdfium2")
TEXT = 1  # a kind of objects of a PDF
DARK = 110  # of 255: a mean below is a page with a dark background
# A table that is wider than its place on paper, with the style of print.
CUT = """landscape => [...document.querySelectorAll("table")].filter(one => one.offsetParent)
  .filter(one => Boolean(one.closest("#tables")) === landscape)
  .filter(one => one.scrollWidth > one.parentElement.clientWidth + 1)
  .map(one => `${one.closest("[id]").id} ${one.scrollWidth} of ${one.parentElement.clientWidth}`)"""
# A4 without the margins, in CSS pixels.
PORTRAIT, LANDSCAPE = 710, 1039


class Printed:
    """The pages of a PDF."""

    def __init__(self, content: bytes) -> None:
        self.document = pdfium.PdfDocument(content)
        self.texts = [page.get_textpage().get_text_range() for page in self.document]

    @property
    def words(self) -> str:
        """All text, squeezed."""
        return squeezed("".join(self.texts))

    def images(self) -> Iterator[Any]:
        """Each page in grey."""
        for page in self.document:
            yield page.render(scale=1).to_pil().convert("L")

    def bounds(self) -> Iterator[tuple[Any, list[tuple[float, ...]]]]:
        """Each page with the places of its texts, in points."""
        for page in self.document:
            yield page, [one.get_bounds() for one in texts_of(page)]

    def close(self) -> None:
        self.document.close()


def texts_of(page: Any) -> list[Any]:
    """The texts of a page that are in no form."""
    return [one for one in page.get_objects(max_depth=1) if one.type == TEXT]


def printed(shown: Any) -> Printed:
    return Printed(shown.page.pdf(prefer_css_page_size=True, format="A4"))


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_a_pdf_has_findings_tables_and_plots_and_no_empty_page(
    path: Path, tmp_path: Path, opened: Opens, capfd: pytest.CaptureFixture[str]
) -> None:
    target = written(path, tmp_path)
    shown, found = opened(target, theme="dark"), findings_of(path, capfd)
    if found:
        shown.page.locator(".card h3 button").first.click()
    pdf = printed(shown)
    for one in found:
        assert squeezed(escaped(one["text"])) in pdf.words
    check_tables(data_of(target.read_bytes()), pdf.words)
    for image in pdf.images():
        grey = image.histogram()
        assert sum(grey[:200]) > 200  # something is on the page
        mean = sum(value * many for value, many in enumerate(grey)) / sum(grey)
        assert mean > DARK
    for page, bounds in pdf.bounds():
        assert all(right <= page.get_width() for _, _, right, _ in bounds)
    pdf.close()
    assert shown.said == []


def squeezed(text: str) -> str:
    """Without white space, and without hyphens, which PDFium drops at the end of a line."""
    return re.sub(r"[\s\ufffe\u00ad\x02-]", "", text)


def check_tables(data: dict[str, Any], words: str) -> None:
    """The first and last of the rows that are shown are printed, with their names."""
    for table in data["tables"]:
        if table["rows"]:
            assert squeezed(table["title"]) in words
            for row in (table["rows"][0], table["rows"][:25][-1]):
                assert squeezed(str(row[0]) or "(none)") in words


@pytest.mark.slow
def test_each_plot_of_a_pdf_is_whole_and_has_ink(tmp_path: Path, opened: Opens) -> None:
    """Its canvas, found in the picture of its page by the texts around it."""
    target = written(QUICKSTART, tmp_path)
    shown = opened(target, theme="dark")
    shown.page.locator('.card[data-id="broker-stalls"] h3 button').click()
    pdf = printed(shown)
    data = data_of(target.read_bytes())
    (sequence,) = (one for one in data["sequences"] if one["finding"] == 0)
    packets = [f"packet{row['request_packet']}" for row in sequence["exchanges"]]
    diagrams = [text for text in map(squeezed, pdf.texts) if all(one in text for one in packets)]
    assert len(diagrams) == 2  # below its finding, and in the section, each on one page
    axes = ("bytesper", "exchangesper", "latency,bytimeofrequest", "lagofgroups,inrecords")
    assert any(all(one in squeezed(text) for one in axes) for text in pdf.texts)
    for place, text in enumerate(pdf.texts):
        if "+0.00ms" in squeezed(text):
            assert inked(pdf, place)
    pdf.close()


def inked(pdf: Printed, place: int) -> bool:
    """Each line of a sequence diagram is drawn, not only listed in the file."""
    page = pdf.document[place]
    found = page.get_textpage()
    image = page.render(scale=2).to_pil().convert("L")
    search = found.search("packet ")
    boxes = []
    while (hit := search.get_next()) is not None:
        boxes.append(found.get_charbox(hit[0]))
    return bool(boxes) and all(is_dark(image, page, box) for box in boxes)


def is_dark(image: Any, page: Any, box: tuple[float, float, float, float]) -> bool:
    left, bottom, right, top = box
    height = page.get_height()
    cut = (2 * left, 2 * (height - top) - 2, 2 * right + 2, 2 * (height - bottom) + 2)
    return bool(image.crop(tuple(map(int, cut))).getextrema()[0] < 128)


@pytest.mark.slow
@pytest.mark.parametrize("hostile", [False, True])
def test_no_table_is_cut_on_paper(hostile: bool, tmp_path: Path, opened: Opens) -> None:
    target = written(hostile_capture(tmp_path) if hostile else QUICKSTART, tmp_path)
    shown = opened(target, PORTRAIT)
    for card in shown.page.locator(".card h3 button").all():
        card.click()
    shown.page.emulate_media(media="print")
    assert shown.page.evaluate(CUT, False) == []
    shown.page.set_viewport_size({"width": LANDSCAPE, "height": 700})
    assert shown.page.evaluate(CUT, True) == []
