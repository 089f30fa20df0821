"""Peaks of memory of every command that reads a capture, on messages that become very large.

One capture holds them all: messages of 2 MB in which the smallest elements are repeated, records
that unpack to 1000 times their size, and very many tiny ones. Each command runs in a process of its
own, which reports its peak (VmHWM: that of a process starts over with its program). Its peak on an
ordinary small capture is subtracted.
"""

import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from pyarrow import parquet

import kdissect
from kdissect import Limits
from kdissect.cli.program import ANALYSES, COMMANDS
from kdissect.tables.schemas import TABLES
from tests.exchange_builders import request, response
from tests.hostile_captures import Talk, capture_of, packed
from tests.hostile_messages import LEAST, ONE, Shape, hostile_body, layouts, shapes_of
from tests.messages.record_builders import GZIP, ZSTD, make_batch, make_record
from tests.seeds import SEED

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peaks of processes are told by Linux's /proc"
)

MIB = 1 << 20
FRAME = 2_000_000
DECODED_BYTES = 2 * MIB
# Beyond a command's use on a small capture: rows until they are passed on, in four copies
# (ROWS_BYTES of kdissect.live.memory); the values of one message, six copies; records unpacked,
# two; the frames of a request and its response, each whole and in pieces.
RECORD = 8 * MIB
ROOM = 64 * MIB + 6 * DECODED_BYTES + 2 * RECORD + 4 * FRAME
# A record as JSON: a zero byte becomes six characters, as text, escaped, and as bytes; beside its
# sources: as unpacked, as value, in Arrow, and as text.
PAYLOAD_COPIES = 3 * 6 + 4
WITH_PAYLOAD = ("dissect everything",)
# A long value on its way into a table, beside the small capture: unpacked, as a value, in Arrow.
VALUE = 64 * MIB
VALUE_COPIES = 4
RATIOS = ("--max", "unpacked_ratio=100000", "--max", "unpacked_ratio_in_all=100000")
ORDINARY = Path(__file__).parents[2] / "captures" / "quickstart.pcapng"
TIMEOUT_S = 300
# A command, and the line that bounds its memory, as it is and without the bound.
UNBOUNDED = (
    (
        "table bodies", "messages/value_budget.py",
        "ValueBudget(min(limit, NO_LIMIT))", "ValueBudget(NO_LIMIT)",
    ),
    (
        "table exchanges", "exchanges/body_reader.py",
        "FieldSink(self.interner, names, decoded_bytes)",
        "FieldSink(self.interner, names, 1 << 40)",
    ),
)  # fmt: skip
# They read no capture, or are jobs of another program; `dataset` reads logs and ends of files.
ELSEWHERE = {"completion", "dataset", "protocol", "spark", "tables", "tls-keys"}
SQL = (
    "select api, count(*), max(latency_ns) from exchanges join partitions using (exchange_id) "
    "group by api"
)

# The program, and its peak in KiB behind its own standard error.
CHILD = """
import sys
from kdissect.cli import main
sys.argv[0] = "kdissect"
try:
    code = main()
except SystemExit as ended:
    code = ended.code
sys.stdout.flush()
for line in open("/proc/self/status"):
    if line.startswith("VmHWM:"):
        sys.stderr.write("\\npeak " + line.split()[1] + "\\n")
sys.exit(code)
"""

# API, version and side of the large message, and the path of the repeated array.
LARGE = (
    ("OffsetFetch", 1, "request", "partition_indexes"),
    ("OffsetFetch", 5, "response", "partitions"),
    ("OffsetCommit", 2, "request", "partitions"),
    ("Metadata", 1, "response", "topics"),
    ("Fetch", 11, "request", "partitions"),
    ("Fetch", 11, "response", "partitions"),
    ("JoinGroup", 2, "response", "members"),
    ("JoinGroup", 2, "request", "protocols"),
    ("CreateTopics", 2, "response", "topics"),
    ("DescribeGroups", 1, "response", "members"),
)


class Ended(NamedTuple):
    """Result of a process."""

    code: int
    peak: int
    errors: str


def large_messages() -> Iterator[Talk]:
    """A connection for each large message."""
    source = random.Random(SEED)
    found = {(one.name, one.version, one.side): one for one in layouts() if not one.spec.releases}
    for number, (name, version, side, array) in enumerate(LARGE):
        layout = found[name, version, side]
        body = hostile_body(layout, shape_of(name, version, side, array), FRAME, source)
        asks = {"body": body} if side == "request" else {}
        says = {"body": body} if side == "response" else {}
        talk = Talk(port=40_000 + number, begin_ns=number * 1_000_000_000)
        talk = talk.client(request("ApiVersions", 0, 1)).broker(response("ApiVersions", 0, 1))
        talk = talk.client(request(name, version, 2, **asks))
        yield talk.broker(response(name, version, 2, **says))


def shape_of(name: str, version: int, side: str, array: str) -> Shape:
    """The shape that repeats the array of that name."""
    layout = next(
        one for one in layouts() if (one.name, one.version, one.side) == (name, version, side)
    )
    for shape in shapes_of(layout):
        fields = layout.spec.fields
        names = ""
        for index in shape.path:
            names = fields[index].name
            fields = fields[index].fields
        if snake(names) == array and not shape.is_tags and shape.inner in (LEAST, ONE):
            return shape
    raise AssertionError(f"no array {array} in {layout}")


def snake(name: str) -> str:
    return re.sub("(?<=[a-z])[A-Z]", lambda found: "_" + found.group(), name).lower()


def produced() -> Talk:
    """Records that unpack to 1000 times their size, and many tiny ones."""
    talk = Talk(port=45_000, begin_ns=100_000_000_000)
    for number, batch in enumerate(
        (
            make_batch([make_record(None, bytes(RECORD))], codec=GZIP),
            make_batch([make_record(None, b"")] * 30_000, codec=GZIP),
        )
    ):
        topic = {"name": "orders", "partition_data": [{"index": 3, "records": batch}]}
        talk = talk.client(request("Produce", 7, number, acks=1, topic_data=[topic]))
        talk = talk.broker(response("Produce", 7, number))
    return talk


def commands(capture: Path, before: Path, output: Path) -> dict[str, list[str]]:
    """Every command that reads a capture, in each of its ways."""
    path, limits = str(capture), ["--max", f"decoded_bytes={DECODED_BYTES}"]
    found = {f"table {name}": ["table", name, path] for name in TABLES}
    found["table records --payload"] = ["table", "records", path, "--payload"]
    found |= {one: [one, path] for one, module in COMMANDS.items() if module == ANALYSES}
    found |= {one: [one, path] for one in ("summary", "show")}
    found["show --payload"] = ["show", path, "--payload"]
    found["compare"] = ["compare", str(before), path]
    everything = ["--bodies", "--records", "--payload"]
    found["dissect"] = ["dissect", path, "-o", str(output / "tables")]
    found["dissect everything"] = ["dissect", path, *everything, "-o", str(output / "all")]
    found["slice"] = ["slice", path, "-o", str(output / "slice.pcap"), "--where", "api_key >= 0"]
    found["spans"] = ["spans", path, "-o", str(output / "spans.json"), "--parts"]
    found["report"] = ["report", path, "-o", str(output / "report.html")]
    found["compare -o"] = ["compare", str(before), path, "-o", str(output / "diff.html")]
    found["sql"] = ["sql", path, SQL]
    found["top"] = ["top", path, "--once", "--window", "1h"]
    found["live"] = ["live", path]
    found["live -o"] = ["live", path, "-o", str(output / "live")]
    return {name: [*command, *limits] for name, command in found.items()}


def run(command: list[str], cwd: Path) -> Ended:
    root = str(Path(__file__).parents[2]) if "PYTHONPATH" not in os.environ else ""
    paths = [os.environ.get("PYTHONPATH", root)]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *command],
        check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        timeout=TIMEOUT_S, cwd=cwd, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
    errors = done.stderr.decode(errors="replace")
    told = re.findall(r"^peak (\d+)$", errors, re.MULTILINE)
    return Ended(done.returncode, int(told[-1]) << 10 if told else -1, errors)


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The hostile capture, and an ordinary one."""
    directory = tmp_path_factory.mktemp("peaks")
    hostile = directory / "hostile.pcap.gz"
    hostile.write_bytes(packed(capture_of([*large_messages(), produced()]), ".pcap.gz"))
    return hostile, ORDINARY


def excess(name: str, captures: tuple[Path, Path], directory: Path) -> str:
    """Violation by the command, "" for none."""
    hostile, ordinary = captures
    ended = []
    for capture in (ordinary, hostile):
        output = directory / capture.name / name.replace(" ", "_")
        output.mkdir(parents=True)
        ended.append(run(commands(capture, ordinary, output)[name], output))
    small, large = ended
    if large.code not in (0, 1) or "Traceback" in large.errors or -1 in (small.peak, large.peak):
        return f"{name}: code {large.code}, {large.errors[-2000:]}"
    more = large.peak - small.peak
    room = ROOM + (PAYLOAD_COPIES * RECORD if name in WITH_PAYLOAD else 0)
    return f"{name}: {more // MIB} MiB more than {small.peak // MIB} MiB" if more > room else ""


def test_every_command_that_reads_a_capture_is_here() -> None:
    here = {command[0] for command in commands(Path(), Path(), Path()).values()}
    assert here == set(COMMANDS) - ELSEWHERE


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", commands(Path(), Path(), Path()))
def test_no_command_takes_more_than_it_may(
    name: str, captures: tuple[Path, Path], tmp_path: Path
) -> None:
    assert excess(name, captures, tmp_path) == "", f"seed {SEED}"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "module", "bound", "unbound"), UNBOUNDED)
def test_code_that_bounds_nothing_is_found(
    name: str,
    module: str,
    bound: str,
    unbound: str,
    captures: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The package is copied, and the copy has no limit on the size of one message's values."""
    copied = tmp_path / "changed" / "kdissect"
    shutil.copytree(
        Path(kdissect.__path__[0]), copied, ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    source = (copied / module).read_text()
    assert source.count(bound) == 1
    (copied / module).write_text(source.replace(bound, unbound))
    paths = [str(copied.parent), str(Path(__file__).parents[2])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    assert "MiB more than" in excess(name, captures, tmp_path)


SIGNS = pytest.mark.parametrize(
    "long_value", [b"\0", "\U0001f389".encode(), b"\xff"], indirect=True
)


@pytest.mark.sweep(2)
@pytest.mark.slow
@pytest.mark.parametrize("format_", ["json", "jsonl", "csv", "table", "parquet"])
@SIGNS
def test_a_long_value_in_a_table_takes_a_small_multiple_of_its_size(
    long_value: Path, format_: str, tmp_path: Path
) -> None:
    """Zeros are six characters each; one wide character makes all of a text wide; or base64."""
    words = ("table", "records", "--payload", "--format", format_, *RATIOS, "-o", "made")
    peak = peak_of([*words, str(long_value)], tmp_path)
    assert peak - ordinary_peak(words) < VALUE_COPIES * VALUE
    if format_ == "parquet":
        assert len(parquet.read_table(tmp_path / "made")["value"][0].as_py()) == VALUE
    elif format_ != "table":
        assert (tmp_path / "made").stat().st_size > VALUE


@pytest.mark.slow
@SIGNS
def test_show_of_a_long_value_takes_a_small_multiple_of_its_size(
    long_value: Path, tmp_path: Path
) -> None:
    words = ("show", "--payload", *RATIOS)
    peak = peak_of([*words, str(long_value)], tmp_path)
    assert 0 < peak - ordinary_peak(words) < VALUE_COPIES * VALUE


@cache
def ordinary_peak(words: tuple[str, ...]) -> int:
    """The peak of a command at the ordinary capture."""
    with tempfile.TemporaryDirectory() as directory:
        return peak_of([*words, str(ORDINARY)], Path(directory))


def peak_of(command: list[str], directory: Path) -> int:
    ended = run(command, directory)
    assert ended.code == 0, ended.errors
    assert ended.peak > 0
    return ended.peak


@pytest.fixture(scope="module")
def long_value(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of one record whose value begins with the given character."""
    sign: bytes = request.param
    path = tmp_path_factory.mktemp("long") / "long.pcap"
    path.write_bytes(capture_of([produced_value(sign + bytes(VALUE - len(sign)))]))
    return path


def produced_value(value: bytes) -> Talk:
    batch = make_batch([make_record(None, value)], codec=ZSTD)
    topic = {"name": "orders", "partition_data": [{"index": 3, "records": batch}]}
    talk = Talk().client(request("Produce", 7, 1, acks=1, topic_data=[topic]))
    return talk.broker(response("Produce", 7, 1))


@pytest.mark.slow
def test_live_capture_keeps_below_the_memory_that_it_may_have(
    captures: tuple[Path, Path], tmp_path: Path
) -> None:
    for megabytes in (512, 768):
        output = tmp_path / str(megabytes)
        limit = ["--max-memory", f"{megabytes}M"]
        ended = run(["live", str(captures[0]), "-o", str(output), *limit], tmp_path)
        assert (ended.code, "Traceback" in ended.errors) == (0, False), ended.errors
        assert 0 < ended.peak < megabytes * MIB


@pytest.mark.slow
@pytest.mark.parametrize("command", [["summary"], ["show"], ["table", "bodies"], ["live"]])
def test_with_default_limits_64_mb_of_partitions_of_4_bytes_stay_small(
    command: list[str], tmp_path: Path
) -> None:
    count = 16_000_000
    body = struct.pack(">h1sih1si", 1, b"g", 1, 1, b"t", count) + bytes(4 * count)
    talk = Talk().client(request("OffsetFetch", 1, 1, body=body))
    capture = capture_of([talk.broker(response("OffsetFetch", 1, 1))])
    path = tmp_path / "large.pcap.zst"
    path.write_bytes(packed(capture, ".pcap.zst"))
    assert path.stat().st_size < 20_000
    ended = run([*command, str(path)], tmp_path)
    assert (ended.code, "Traceback" in ended.errors) == (0, False), ended.errors
    # A small capture takes 100 MiB, or 200 in a summary; the frame is there whole and as pieces.
    assert 0 < ended.peak < (200 + 64) * MIB + 6 * Limits().decoded_bytes + 2 * len(body)
