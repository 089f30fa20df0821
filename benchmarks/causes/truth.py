"""Truth of a capture: action, target, time, and the finding that is expected."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

SUFFIX = ".truth.json"


@dataclass
class Truth:
    """One capture's truth; for a quiet one `ids` is empty and `cause` describes the traffic."""

    name: str
    incident: str  # the class
    half: str
    cause: str
    ids: list[str] = field(default_factory=list)
    also: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    entities: list[str] = field(default_factory=list)
    is_notice: bool = False
    start_ns: int | None = None
    end_ns: int | None = None
    kafka: str = ""
    shape: str = ""
    library: str = ""
    pressure: float = 0.0  # share of the capture's time in which any process waited for a CPU
    view: str = ""  # how it was derived from another capture
    names: dict[str, str] = field(default_factory=dict)  # of {placeholders} of the table
    clients: dict[str, dict[str, int]] = field(default_factory=dict)  # counts by clients

    def write(self, capture: Path) -> None:
        """Write it beside its capture."""
        text = json.dumps(asdict(self), indent=1)
        place_of(capture).write_text(text + "\n", encoding="utf-8")


def place_of(capture: Path) -> Path:
    """Path of a capture's truth."""
    return capture.with_name(capture.name.partition(".pcap")[0] + SUFFIX)


def read_truth(capture: Path) -> Truth:
    """The truth of a capture."""
    return Truth(**json.loads(place_of(capture).read_text(encoding="utf-8")))
