"""Protocol versions of Kafka releases: the protocol's definitions as lookups by column.

A release is its index in `RELEASES`, so that releases compare.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from kdissect.protocol.apis import APIS

if TYPE_CHECKING:
    import ibis.expr.types as ir

# Releases that changed the protocol, oldest first.
RELEASES: Final = (
    "0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0", "0.10.1", "0.10.2", "0.11.0", "1.0", "1.1",
    "2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "3.0", "3.1", "3.2", "3.3",
    "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4",
)  # fmt: skip
# As prefixes: 0.10.2.2 is a 0.10.2, 3.9.1 a 3.9.
RELEASE: Final = "^(0\\.[0-9]+(\\.[0-9]+)?|[1-9][0-9]*\\.[0-9]+)"
# KIP-896 deprecated versions in this release, and 4.0 removed them.
DEPRECATING: Final = "3.7"
# From this release on brokers accept only message format 2 from producers (KIP-724), and do not
# convert.
ONE_FORMAT: Final = "4.0"


class Spoken(NamedTuple):
    """The versions of an API that a release supports; those up to `deprecated` are deprecated.

    The indexes are of the first releases that supported the oldest version, and the oldest version
    that is not deprecated.
    """

    api: str
    oldest: int
    newest: int
    deprecated: int
    first_place: int
    current_place: int


def numbers(release: str) -> tuple[int, ...]:
    """The numbers of a release, for comparison.

    >>> numbers("0.10.2") < numbers("3.9") < numbers("4.0")
    True
    """
    return tuple(int(part) for part in release.split("."))


def spoken_by(release: str) -> list[Spoken]:
    """Versions supported by a release; early-access ones, which must be enabled, do not count."""
    is_deprecating = numbers(release) >= numbers(DEPRECATING)
    places = first_places()
    found = []
    for api in APIS.values():
        definition = api.definition()
        versions = [
            version
            for version, span in definition.releases.items()
            if numbers(span.first) <= numbers(release)
            and (not span.last or numbers(release) <= numbers(span.last))
            and release not in span.unstable_in
        ]
        if not versions:
            continue
        old = [one for one in versions if is_deprecating and one in definition.deprecated]
        oldest, newest, deprecated = min(versions), max(versions), max(old, default=-1)
        current = min(max(oldest, deprecated + 1), newest)
        first_place, current_place = (places[f"{api.name} {one}"] for one in (oldest, current))
        found.append(Spoken(api.name, oldest, newest, deprecated, first_place, current_place))
    return found


def place_since(api: "ir.StringColumn", version: "ir.IntegerColumn") -> "ir.IntegerValue":
    """The index of the first release that supports a version; null for unknown ones."""
    return looked_up(first_places(), api + " " + version.cast("string"))


def first_places() -> dict[str, int]:
    """``API version`` → the index of the first release that supported it."""
    return {
        f"{api.name} {version}": RELEASES.index(span.first)
        for api in APIS.values()
        for version, span in api.definition().releases.items()
    }


def release_at(place: "ir.IntegerColumn") -> "ir.StringValue":
    """The name of the release at an index."""
    return looked_up({str(index): name for index, name in enumerate(RELEASES)},
                     place.cast("string"))  # fmt: skip


def place_of(release: "ir.StringColumn") -> "ir.IntegerValue":
    """The index of a release; null for an invalid one.

    Patch releases (0.10.2.2, 3.9.1) map to the release that they fix.
    """
    places = {name: place for place, name in enumerate(RELEASES)}
    known = places | {"0.11": places["0.11.0"]}
    return looked_up(known, release.re_extract(RELEASE, 1))


def looked_up(known: dict[str, int] | dict[str, str], key: "ir.StringValue") -> "ir.Value":
    """The value for each key; null for missing keys."""
    import ibis

    return ibis.map(list(known), list(known.values())).get(key)
