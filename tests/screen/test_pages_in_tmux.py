"""The page and `top` as tmux shows them, 80, 120 and 200 columns wide."""

import shutil
import sys
from collections.abc import Iterator

import pytest

from tests.screen.golden import QUICKSTART, ROOT, Terminal, terminal, top

pytestmark = pytest.mark.slow
CAPTURE = str(QUICKSTART.relative_to(ROOT))
PAGE = [sys.executable, "-m", "kdissect", CAPTURE, "--no-progress"]
TALL = 60  # the page has fewer lines at any width
LESS = "less -R"  # shows its own `:` where there is more


@pytest.fixture(scope="module", autouse=True)
def _tmux() -> None:
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux to look at the screen")


def lines_of(opened: Terminal) -> list[str]:
    return opened.screen().splitlines()


@pytest.mark.parametrize(
    ("width", "words", "variables", "is_coloured"),
    [
        (80, [], {}, True),
        (120, [], {"NO_COLOR": "1"}, False),
        (200, ["--color", "never"], {}, False),
        (120, ["--color", "always"], {"NO_COLOR": "1"}, True),
    ],
)
def test_the_page_is_one_screen(
    width: int, words: list[str], variables: dict[str, str], is_coloured: bool
) -> None:
    with terminal([*PAGE, *words], width, TALL, **variables) as opened:
        shown = opened.wait_for("ended 0")
        assert ("\x1b[31m" in opened.screen("-e")) == is_coloured
        above = opened.tmux("display-message", "-p", "#{history_size}")
    assert above == "0\n"  # nothing has left the screen
    first = shown.splitlines()[0]
    assert first.startswith(CAPTURE)
    assert all(len(line) <= width for line in shown.splitlines())
    for title in ("Findings", "APIs", "--full"):
        assert title in shown


@pytest.fixture
def paged() -> Iterator[Terminal]:
    if shutil.which("less") is None:
        pytest.skip("needs less, the usual pager")
    with terminal(PAGE, 80, 12, PAGER=LESS) as opened:
        yield opened


def test_what_does_not_fit_is_in_the_pager(paged: Terminal) -> None:
    shown = paged.wait_for("Findings")
    assert "ended" not in shown
    assert lines_of(paged)[0].startswith(CAPTURE)
    paged.press("G")
    paged.wait_for("--full")
    paged.press("q")
    paged.wait_for("ended 0")


@pytest.mark.parametrize("width", [80, 200])
def test_top_is_entered_and_left(width: int) -> None:
    with terminal(top(CAPTURE), width, 24) as opened:
        shown = opened.wait_for("capture ended")
        assert opened.tmux("display-message", "-p", "#{alternate_on}") == "1\n"
        assert all(len(line) <= width for line in shown.splitlines())
        assert "Produce" in shown
        opened.press("q")
        assert opened.wait_for("ended 0").split() == ["ended", "0"]
        assert opened.tmux("display-message", "-p", "#{alternate_on}") == "0\n"
