"""The source of `generated_readers`, which setup.py writes below build/ and compiles.

It needs only what a build has: no module that it imports may need a dependency of kdissect.
"""

from typing import Final, NamedTuple

from kdissect.messages.field_mapping import fact_plans
from kdissect.messages.layout_writer import method_of
from kdissect.protocol.apis import APIS, api_name

# Keys of APIs with the first version that is compiled. Of what clients say all the time, that is
# the version of 0.11, after which brokers speak of records as they do today; of what each says when
# it connects or joins a group, the first flexible one. All others cost size and time of the build,
# and are left to the tree.
COMPILED_APIS: Final = {
    0: 3, 1: 4, 2: 1, 3: 4, 8: 2, 12: 0,
    9: 6, 10: 3, 11: 6, 13: 4, 14: 4, 18: 3, 22: 2, 68: 0,
}  # fmt: skip
HEAD: Final = '''\
"""Generated readers of the messages that clients say most.

Written when kdissect is built, see `readers_source`. `vN` is what is kept in slot N of the
projected decode: a number, or where something is.
"""

from typing import Final, cast

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from kdissect.messages.extracted import FieldSink
from kdissect.protocol.plans import GeneratedRead
from kdissect.protocol.primitives import read_unsigned_varint
from kdissect.protocol.readers import FAILED, NULL, Sink
from kdissect.protocol.structures import read_tag, skip_tags
'''


class Written(NamedTuple):
    """A class of the compiled module: the layout of some versions of a message."""

    message: str
    versions: list[int]
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the class."""
        return f"{self.message}{self.versions[0]}"


def module_source() -> str:
    """The source of `generated_readers`; a layout that several versions share is written once."""
    written = [each for key in COMPILED_APIS for each in written_of(key)]
    parts = [HEAD]
    for each in written:
        first, last = each.versions[0], each.versions[-1]
        versions = f"v{first}" if first == last else f"v{first} to v{last}"
        head = f'class {each.name}(GeneratedRead):\n    """{each.message} {versions}."""\n'
        parts.append("\n".join([head, *each.lines, ""]))
    entries = [
        f'    ("{each.message}", {version}): {each.name},\n'
        for each in written
        for version in each.versions
    ]
    table = "READS: Final[dict[tuple[str, int], type[GeneratedRead]]] = {\n"
    parts.append(f"# By name and version of the message.\n{table}{''.join(entries)}}}\n")
    return "\n\n".join(parts)


def written_of(key: int) -> list[Written]:
    """The classes of an API's requests and responses."""
    found: list[Written] = []
    api, plans = APIS[key], fact_plans()
    for is_response in (False, True):
        message = api_name(key) + ("Response" if is_response else "Request")
        by_lines: dict[tuple[str, ...], Written] = {}
        for version in range(max(api.lowest, COMPILED_APIS[key]), api.highest + 1):
            if api.knows(version):
                lines = method_of(plans.get(key, version, is_response), is_compiled=True)
                by_lines.setdefault(lines, Written(message, [], lines)).versions.append(version)
        found += by_lines.values()
    return found
