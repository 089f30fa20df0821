"""The committed corpus: inputs that reach different code, in one compressed file.

`tests/fuzz/corpus.jsonl.xz` has a line an input: ``[target, base64]``.
"""

import base64
import json
import lzma
from collections.abc import Iterable
from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).parents[2] / "tests" / "fuzz" / "corpus.jsonl.xz"
# Targets whose inputs are edits of a capture, see `faulty_captures` and `faulty_tls`.
EDITED: Final = ("segments", "packets", "blocks", "tls")


def read_corpus() -> list[tuple[str, bytes]]:
    """Targets and inputs."""
    lines = lzma.decompress(CORPUS.read_bytes()).decode().splitlines()
    return [(target, base64.b64decode(raw)) for target, raw in map(json.loads, lines)]


def write_corpus(inputs: Iterable[tuple[str, bytes]]) -> int:
    """Replaces the committed corpus; the size of the file."""
    # Neighbours that are alike compress well.
    ordered = sorted(set(inputs), key=lambda entry: (entry[0], entry[1][:2], len(entry[1])))
    lines = [json.dumps([target, base64.b64encode(raw).decode()]) for target, raw in ordered]
    packed = lzma.compress("\n".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME)
    CORPUS.parent.mkdir(exist_ok=True)
    CORPUS.write_bytes(packed)
    return len(packed)
