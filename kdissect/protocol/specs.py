"""Message definitions as values; see `notation` for the files they are read from."""

from collections.abc import Iterable
from functools import cache
from typing import Final, NamedTuple

from kdissect.errors import SchemaError

Versions = frozenset[int]

NO_VERSIONS: Final[Versions] = frozenset()
FIXED_SIZES: Final = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8,
    "float64": 8, "uuid": 16,
}  # fmt: skip
PRIMITIVES: Final = frozenset(FIXED_SIZES) | {"string", "bytes", "records"}
MAX_VERSION: Final = 255


class FieldSpec(NamedTuple):
    """One field in all its versions; `type` is a primitive or the struct's name, of the element.

    `tag` is -1 if it is never in the tag section; `default` is "" for the type's own zero.
    """

    name: str
    type: str
    is_array: bool
    versions: Versions
    nullable: Versions = NO_VERSIONS
    tagged: Versions = NO_VERSIONS
    tag: int = -1
    entity: str = ""
    default: str = ""
    is_inflexible: bool = False
    fields: tuple["FieldSpec", ...] = ()

    @property
    def is_struct(self) -> bool:
        """Return whether the field, or an element of it, is a struct."""
        return self.type not in PRIMITIVES

    @property
    def full_type(self) -> str:
        """The type as upstream writes it: ``[]int32`` for an array."""
        return f"[]{self.type}" if self.is_array else self.type


class MessageSpec(NamedTuple):
    """One message body in all its versions; `releases` only for a variant.

    A foreign variant is not of a Kafka release: `releases` is one word that names it.
    """

    name: str
    versions: Versions
    flexible: Versions
    fields: tuple[FieldSpec, ...]
    releases: tuple[str, ...] = ()
    is_unstable: bool = False
    is_foreign: bool = False


class Release(NamedTuple):
    """Releases that used one version: `last` is "" if the newest known one does."""

    first: str
    last: str
    unstable_in: tuple[str, ...] = ()


class Definition(NamedTuple):
    """One block of a schema file; `layouts` by role: request and response, or layout."""

    kind: str
    key: int
    name: str
    versions: Versions
    flexible: Versions
    deprecated: Versions
    listeners: tuple[str, ...]
    former_names: tuple[str, ...]
    is_latest_unstable: bool
    releases: dict[int, Release]
    layouts: dict[str, MessageSpec]
    variants: tuple[tuple[str, MessageSpec], ...]

    def unstable_in(self, version: int) -> str:
        """The releases that offer a version only with unstable versions enabled; "" for none.

        ``4.1+`` is every release since, ``3.5, 3.6`` those only.
        """
        release = self.releases.get(version)
        known = release.unstable_in if release else ()
        if self.is_latest_unstable and version == max(self.versions):
            first = known[0] if known else release.first if release else ""
            return f"{first}+" if first else "all"
        return ", ".join(known)

    def unstable_versions(self) -> str:
        """Every version that is or was unstable, with its releases: ``9: 3.6; 10: 4.1``."""
        texts = [(version, self.unstable_in(version)) for version in sorted(self.versions)]
        return "; ".join([f"{version}: {text}" for version, text in texts if text])


@cache
def snake_case(name: str) -> str:
    """Kafka's own rule: ``_`` before a capital that does not follow a capital.

    >>> snake_case("ThrottleTimeMs"), snake_case("KRaftVersion"), snake_case("Enable2Pc")
    ('throttle_time_ms', 'kraft_version', 'enable2_pc')
    """
    letters = []
    after_capital = True
    for letter in name:
        if letter.isupper() and not after_capital:
            letters.append("_")
        letters.append(letter.lower())
        after_capital = letter.isupper()
    return "".join(letters)


def parse_versions(text: str, newest: int) -> Versions:
    """The versions of ``0-4``, ``3+`` (up to `newest`), ``7``, ``none`` or several with commas.

    >>> sorted(parse_versions("0-1,5+", 6))
    [0, 1, 5, 6]
    """
    if text in ("none", ""):
        return NO_VERSIONS
    versions: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            if first.endswith("+"):
                versions.update(range(int(first[:-1]), newest + 1))
            else:
                versions.update(range(int(first), int(last if dash else first) + 1))
        except ValueError:
            raise SchemaError(f"not a range of versions: {text!r}") from None
    return frozenset(versions)


def format_versions(versions: Iterable[int], newest: int) -> str:
    """The text of `versions`, as `parse_versions` reads it; ``none`` when there are none.

    >>> format_versions({0, 1, 5, 6}, 6), format_versions({3}, 6)
    ('0-1,5+', '3')
    """
    ranges: list[list[int]] = []
    for version in sorted(versions):
        if ranges and ranges[-1][1] == version - 1:
            ranges[-1][1] = version
        else:
            ranges.append([version, version])
    texts = []
    for first, last in ranges:
        if last == newest and last > 0:
            texts.append(f"{first}+")
        else:
            texts.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(texts) or "none"


def message_name(name: str, role: str) -> str:
    """Upstream's name of one layout of a definition: ``Fetch`` + request = ``FetchRequest``."""
    return name if role == "layout" else name + role.capitalize()
