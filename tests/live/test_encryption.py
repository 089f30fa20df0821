"""TLS without keys is reported while its connections are open."""

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.capture.packet import Packet
from kdissect.live.counting.lines import json_of, line_of
from kdissect.live.counting.meters import Meters
from kdissect.live.counting.metrics import MetricsListener
from kdissect.live.encryption import EncryptionPoll, Undecrypted
from kdissect.live.listener import Status
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options
from kdissect.screen.heading import History, Marks, heading_lines
from kdissect.sources.recorded_source import RecordedSource
from tests.live.made_rows import GivenWire
from tests.live.test_metrics import ROOT, by, page, samples, served
from tests.seeds import SEED

CAPTURES = sorted((ROOT / "captures" / "tls").glob("*.pcapng"))


def packets_of(path: Path) -> list[Packet]:
    source = RecordedSource(str(path))
    packets: list[Packet] = []
    while (batch := source.read(0)) is not None:
        packets += batch
    source.close()
    return packets


def status_of(packets: list[Packet], keylog: tuple[str, ...] = ()) -> tuple[Status, Status]:
    """Status after these packets, and after the end of all connections."""
    watcher = Watcher(GivenWire(packets), [Meters()], Options(keylog=keylog))
    watcher.begin()
    while watcher.step():
        pass
    open_status = watcher.status()
    watcher.finish()
    return open_status, watcher.status()


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_open_connections_count_as_they_will_when_they_have_ended(path: Path) -> None:
    packets = packets_of(path)
    cut = random.Random(f"{SEED} {path.stem}").randrange(1, len(packets))
    for some in (packets[:cut], packets):
        before, after = status_of(some)
        told, ended = before.undecrypted, before.balance
        assert after.undecrypted.connections == 0
        assert after.undecrypted.bytes == after.balance.encrypted_bytes
        # Records that wait for a hello, or are not complete, become encrypted at the end.
        assert told.bytes <= after.balance.encrypted_bytes, f"seed {SEED}"
        open_then = after.balance.encrypted_connections - ended.encrypted_connections
        assert told.connections <= open_then, f"seed {SEED}"


def test_connections_and_reasons_are_those_of_the_table() -> None:
    path = ROOT / "captures" / "tls" / "tls13-4.3.1.pcapng"
    before, after = status_of(packets_of(path))
    rows: list[pa.RecordBatch] = []

    class Rows(Meters):
        tables = frozenset({"connections"})

        def take(self, table: str, batch: pa.RecordBatch) -> None:
            rows.append(batch)

        def tick(self, status: Status) -> None: ...

    Watcher(GivenWire(packets_of(path)), [Rows()]).run()
    table = pa.Table.from_batches(rows).to_pylist()
    reasons = [row["tls_undecrypted"] for row in table if row["tls_undecrypted"]]
    assert after.balance.encrypted_connections == len(reasons) > 0
    assert set(before.undecrypted.reasons) <= set(reasons)


def test_nothing_is_reported_where_keys_decrypt_all() -> None:
    path = ROOT / "captures" / "tls" / "tls13-4.3.1.pcapng"
    before, _ = status_of(packets_of(path), (str(path.with_suffix(".keys")),))
    assert before.undecrypted == Undecrypted({}, 0)


def test_it_is_in_lines_json_heading_and_metrics() -> None:
    meters, metrics = Meters(), MetricsListener()
    watcher = Watcher(
        GivenWire(packets_of(ROOT / "captures" / "tls" / "tls-sasl-4.3.1.pcapng")),
        [meters, metrics],
    )
    watcher.begin()
    while watcher.step():
        pass
    status = watcher.status()
    number, reason = status.undecrypted.connections, status.undecrypted.reason
    for listener in (meters, metrics):
        listener.tick(status)
    snapshot = meters.snapshot()
    assert number > 0
    assert f"  tls {number}" in line_of(snapshot)
    told = json.loads(json.dumps(json_of(snapshot)))["undecrypted"]
    assert told == {
        "connections": number, "bytes": status.undecrypted.bytes,
        "reasons": dict(status.undecrypted.reasons),
    }  # fmt: skip
    for width, text in ((80, f"{number} TLS"), (140, f"{number} TLS not decrypted: {reason}")):
        lines = heading_lines(snapshot, History(), Marks("lo", 1.0, 60.0), width)
        assert text in "".join(piece.text for line in lines for piece in line)
    with served(metrics) as server:
        found = samples(page(server))
    assert by(found, "kdissect_undecrypted_connections") == {(): number}
    assert found["kdissect_undecrypted_bytes_total", frozenset()] == status.undecrypted.bytes


def test_all_sessions_have_their_turn_however_many_there_are() -> None:
    watcher = Watcher(
        GivenWire(packets_of(ROOT / "captures" / "tls" / "tls13-4.3.1.pcapng")), [Meters()]
    )
    watcher.begin()
    while watcher.step():
        pass
    sessions = watcher.dissector.tls.sessions
    whole = EncryptionPoll(sessions).look(0)
    few = EncryptionPoll(sessions, polled=1)
    for _ in range(len(sessions)):
        found = few.look(0)
    assert len(sessions) > 1
    assert found == whole
