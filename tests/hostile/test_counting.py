"""The counting of work finds what it is there for: code whose work grows with the square."""

from collections.abc import Callable
from typing import Any

import pytest

from kdissect.exchanges import pairing, request_search
from kdissect.framing import frame_search
from tests.hostile import counting
from tests.hostile.counting import IS_COMPILED
from tests.hostile.test_work import check_growth, counted

UNBOUNDED = 1 << 60
pytestmark = pytest.mark.skipif(IS_COMPILED, reason="compiled code has no lines to count")


class Forgetful(dict[int, int]):
    """Never knows what was found out before."""

    def __setitem__(self, key: int, value: int) -> None:
        pass


def walk_each_chain_again(patch: pytest.MonkeyPatch) -> str:
    """Guesses lead to the same frames; those are looked at for each guess, without any credit."""
    begin = request_search.Judge.__init__

    def begin_forgetful(judge: Any, *values: Any) -> None:
        begin(judge, *values)
        judge._walked = Forgetful()

    patch.setattr(request_search.Judge, "__init__", begin_forgetful)
    unbounded = [(frame_search, name, UNBOUNDED) for name in ("FIRST_CREDIT", "FIRST_STEPS")]
    patch.setattr(counting, "SMALL_BOUNDS", unbounded)
    return "api_versions"


def compare_with_all_that_share_an_id(patch: pytest.MonkeyPatch) -> str:
    """A response is compared with each waiting request."""
    patch.setattr(counting, "SMALL_BOUNDS", [(pairing, "MAX_SHARED", UNBOUNDED)])
    return "rounds_of_a_controller"


@pytest.mark.parametrize(
    ("change", "size"),
    [(walk_each_chain_again, 8_000), (compare_with_all_that_share_an_id, 24_000)],
)
def test_work_that_grows_with_the_square_is_found(
    change: Callable[[pytest.MonkeyPatch], str], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = change(monkeypatch)
    counts = [counted(name, 5, size << n) for n in range(2)]
    with pytest.raises(AssertionError, match=f"of {name}, KDISSECT_SEED"):
        check_growth(counts, size, name)
