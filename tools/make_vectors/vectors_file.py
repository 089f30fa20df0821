"""The file of vectors: JSON lines, compressed by xz.

A line is [writer, message name, version, releases, bytes in base64, expected values]. `releases`
is "" for the newest layout, else the releases of the variant as the schema names them. Bytes among
the values are written as ``hex:00ff``, unknown tags as ``unknown_tags`` by number.
"""

import json
import lzma
from pathlib import Path
from typing import Any, NamedTuple

PATH = Path(__file__).parent.parent.parent / "tests" / "protocol" / "vectors.jsonl.xz"


class Vector(NamedTuple):
    """One message; `writer` names its origin, like ``kio 0.6.5`` or ``kafka 4.4.0``."""

    writer: str
    name: str
    version: int
    releases: str
    raw: str
    values: dict[str, Any]

    @property
    def layout(self) -> tuple[str, int, str]:
        """Attributes shared by all vectors of one layout."""
        return self.name, self.version, self.releases


def read_vectors() -> list[Vector]:
    """All vectors of the file; none when there is no file."""
    if not PATH.exists():
        return []
    with lzma.open(PATH, "rt", encoding="utf-8") as lines:
        return [Vector(*json.loads(line)) for line in lines]


def replace_vectors(writers: str, vectors: list[Vector]) -> None:
    """Write the file; `vectors` replace all whose writer starts with `writers`."""
    kept = [vector for vector in read_vectors() if not vector.writer.startswith(writers)]
    # Stable: the vectors of one writer and layout stay in their order.
    merged = sorted(kept + vectors, key=lambda vector: (*vector.layout, vector.writer))
    text = "".join(
        json.dumps(vector, ensure_ascii=False, separators=(",", ":")) + "\n" for vector in merged
    )
    PATH.write_bytes(lzma.compress(text.encode("utf-8"), preset=9))
    layouts = {vector.layout for vector in merged}
    print(f"{len(merged)} vectors of {len(layouts)} layouts, {PATH.stat().st_size} bytes: {PATH}")
