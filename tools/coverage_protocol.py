"""``python -m tools.coverage_protocol``: what proves each layout, into tests/protocol/spoken.json.

A layout is proved by vectors, which others wrote and kdissect reads exactly (`tools.make_vectors`),
by captures of real software, or by neither. Which layouts each capture speaks is worked out here,
anew only for captures that changed; docs/protocol.md is printed from it (`tools.print_docs`).
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import kdissect
from kdissect.errors import DecodeError
from kdissect.messages import embedded, group_protocols, internal_topics, layout_choice
from kdissect.messages.headers import response_layout_version
from kdissect.protocol.apis import APIS, find_api, request_header_version, response_header_version
from kdissect.protocol.notation import SCHEMA_DIRECTORY, load_file
from kdissect.protocol.specs import message_name, snake_case
from tools.make_vectors.vectors_file import read_vectors

ROOT = Path(__file__).parent.parent
CAPTURES = ROOT / "captures"
SPOKEN = ROOT / "tests" / "protocol" / "spoken.json"
BODIES, HEADERS, RECORDS, VARIANTS = "bodies of APIs", "headers", "records and embedded", "variants"


class Layout(NamedTuple):
    """A message in one version; `releases` is "" unless it is a variant."""

    name: str
    version: int
    releases: str = ""

    def __str__(self) -> str:
        return " ".join([self.name, str(self.version), *self.releases.split()])


class Proof(NamedTuple):
    """Evidence for a layout: writers of vectors like ``kio``, names of captures."""

    kind: str
    writers: frozenset[str]
    captures: tuple[str, ...]


def main() -> None:
    """Bring the file up to date and return the evidence."""
    known = read_spoken()
    spoken = {}
    for path in captures():
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        if known.get(path.name, {}).get("sha256") == sha256:
            spoken[path.name] = known[path.name]
            continue
        layouts = sorted(str(layout) for layout in layouts_in(path))
        spoken[path.name] = {"sha256": sha256, "layouts": layouts}
        print(f"{path.name}: {len(layouts)} layouts")
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in spoken.items()]
    SPOKEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    proofs.cache_clear()
    for kind, counts in summary().items():
        print(f"{kind}: " + ", ".join(f"{count} {what}" for what, count in counts.items()))


def captures() -> list[Path]:
    return sorted(CAPTURES.glob("*.pcapng"))


def read_spoken() -> dict[str, Any]:
    """Layouts in each capture, by its file name."""
    spoken: dict[str, Any] = json.loads(SPOKEN.read_text("utf-8")) if SPOKEN.exists() else {}
    return spoken


@cache
def proofs() -> dict[Layout, Proof]:
    """Evidence for every layout, in the order of the schema's files."""
    writers: dict[Layout, set[str]] = {}
    for vector in read_vectors():
        layout = Layout(vector.name, vector.version, vector.releases)
        writers.setdefault(layout, set()).add(vector.writer.split()[0])
    speaking: dict[str, list[str]] = {}
    for capture, entry in read_spoken().items():
        for text in entry["layouts"]:
            speaking.setdefault(text, []).append(capture.removesuffix(".pcapng"))
    return {
        layout: Proof(
            kind, frozenset(writers.get(layout, ())), tuple(speaking.get(str(layout), ()))
        )
        for layout, kind in all_layouts()
    }


def all_layouts() -> Iterator[tuple[Layout, str]]:
    """Every layout of a Kafka release in the schema, with its kind."""
    for path in sorted(SCHEMA_DIRECTORY.glob("*/*.txt")):
        file = path.relative_to(SCHEMA_DIRECTORY).with_suffix("").as_posix()
        for definition in load_file(file).values():
            kind = RECORDS
            if file.startswith("apis/"):
                kind = BODIES
            elif definition.kind == "header":
                kind = HEADERS
            for role, spec in definition.layouts.items():
                for version in sorted(spec.versions):
                    yield Layout(message_name(definition.name, role), version), kind
            for role, spec in definition.variants:
                if spec.is_foreign:
                    continue  # no class of Kafka's writes it: tests do
                name = message_name(definition.name, role)
                for version in sorted(spec.versions):
                    yield Layout(name, version, " ".join(spec.releases)), VARIANTS


def summary() -> dict[str, dict[str, int]]:
    """Number of layouts by kind and evidence."""
    counts: dict[str, dict[str, int]] = {}
    for proof in proofs().values():
        count = counts.setdefault(
            proof.kind, {"by both": 0, "by vectors": 0, "by captures": 0, "by neither": 0}
        )
        count[how(proof)] += 1
    return counts


def how(proof: Proof) -> str:
    """Evidence for a layout in words."""
    if proof.writers:
        return "by both" if proof.captures else "by vectors"
    return "by captures" if proof.captures else "by neither"


def layouts_in(path: Path) -> set[Layout]:
    """The layouts that a capture speaks and kdissect reads to their last byte."""
    found: set[Layout] = set()
    with messages_told(found.add):
        for exchange in kdissect.dissect(str(path)):
            for side in ("request", "response"):
                frame = exchange.raw_frame(side)
                if frame and exchange.api_key in APIS:
                    found.update(layouts_of(exchange, side, frame))
    return found


def layouts_of(exchange: Any, side: str, frame: bytes) -> Iterator[Layout]:
    """The layouts of a frame's header and body; none unless the body is read exactly."""
    key, version = exchange.api_key, exchange.api_version
    if side == "response":
        version = response_layout_version(key, version, frame)
    try:
        body = exchange.body(side)
    except DecodeError:
        return
    if body is None or "trailing_size" in body:
        return
    name = message_name(find_api(key).name, side)
    yield Layout(name, int(version), body.get("layout_of", ""))
    if side == "request":
        yield Layout("RequestHeader", int(request_header_version(key, version)))
    else:
        yield Layout("ResponseHeader", int(response_header_version(key, version)))


@contextmanager
def messages_told(tell: Callable[[Layout], None]) -> Iterator[None]:
    """Report every record and embedded message decoded in the meantime.

    By modules of the sources: compiled ones call each other directly.
    """

    def decode_message(
        file: str, name: str, version: int, data: bytes, offset: int = 0, first_release: str = ""
    ) -> Any:
        values = layout_choice.decode_message(file, name, version, data, offset, first_release)
        tell(Layout(name, version, values.get("layout_of", "")))
        return values

    def decode_consumer(data: bytes, part: str, name: str | None) -> Any:
        values = original(data, part, name)
        spec = load_file("messages/embedded")[f"ConsumerProtocol{part}"].layouts["layout"]
        # Some clients leave off the fields after the topics: that is no whole layout.
        version = values["version"]
        fields = {snake_case(each.name) for each in spec.fields if version in each.versions}
        if version in spec.versions and fields == values.keys() - {"version"}:
            tell(Layout(spec.name, version))
        return values

    original = group_protocols.decode_consumer
    modules = (embedded, group_protocols, internal_topics)
    try:
        for module in modules:
            vars(module)["decode_message"] = decode_message
        vars(group_protocols)["decode_consumer"] = decode_consumer
        yield
    finally:
        for module in modules:
            vars(module)["decode_message"] = layout_choice.decode_message
        vars(group_protocols)["decode_consumer"] = original


if __name__ == "__main__":
    main()
