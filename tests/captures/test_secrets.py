"""No output shows a credential: every command and format, and the library's values, are searched.

The same search runs over the captures with credentials, to prove that it finds them.
"""

import base64
import csv
import io
import sys
import traceback
from collections.abc import Iterator
from contextlib import redirect_stderr, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import kdissect
from kdissect.api.dissected import DissectedExchange
from kdissect.capture.files import open_captures
from kdissect.cli.program import report, run
from kdissect.errors import DecodeError, KdissectError
from kdissect.messages.headers import read_request_header, response_body_offset
from kdissect.pipeline import ProblemFound
from kdissect.protocol.apis import APIS
from kdissect.tables.schemas import TABLES
from tests.captures import secrets
from tests.secret_conversations import SECRETS, secret_talks

CAPTURES = Path(__file__).parents[2] / "captures"
NAMES = sorted(
    path.stem
    for pattern in ("sasl-*", "tokens-*", "admin-3.9.1-*", "admin-4.*")
    for path in CAPTURES.glob(f"{pattern}.pcapng")
)
FORMATS = ("table", "json", "jsonl", "csv")
NEEDS_OTEL = pytest.mark.skipif(
    find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None,
    reason="needs the extra otel",
)

csv.field_size_limit(sys.maxsize)


class Case:
    """A capture and the credentials in it that no output may show."""

    def __init__(self, path: Path, known: set[bytes]) -> None:
        self.path = path
        self.secrets = known


@pytest.fixture(scope="module", params=[*NAMES, "made"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    if request.param != "made":
        path = CAPTURES / f"{request.param}.pcapng"
        return Case(path, secrets.secrets_of(path))
    path = tmp_path_factory.mktemp("made") / "made.pcap"
    path.write_bytes(secret_talks().pcap())
    return Case(path, set(SECRETS))


def test_the_search_finds_the_secrets_in_the_capture(case: Case) -> None:
    """Control: the secrets are present, and are found in other forms, too."""
    assert case.secrets
    data = case.path.read_bytes()
    on_the_wire = secrets.found_in(case.secrets, data)
    # SCRAM never sends a password, and of some only the encoded form is sent.
    assert len(on_the_wire) > len(case.secrets) / 2
    for secret in case.secrets:
        for shown in (
            b"x" + secret, (b"\x01\x02" + secret).hex(" ").encode(), repr(b"\n" + secret).encode(),
            *(base64.b64encode(b"y" * n + secret + b"z") for n in range(3)),
        ):  # fmt: skip
            assert secrets.found_in({secret}, shown) == {secret}


@pytest.mark.parametrize(
    "arguments",
    [
        ["summary"], ["summary", "--format", "json"], ["show"], ["show", "--payload"],
        ["show", "--payload", "--format", "jsonl"],
        *(["table", name, "--format", "jsonl", "--payload"] for name in TABLES),
        *(["table", "bodies", "--format", format_, "--payload"] for format_ in FORMATS),
        ["table", "records", "--format", "csv", "--payload", "--verify-crc"],
        ["table", "problems", "--format", "table"],
        ["table", "exchanges", "--strict"],
        pytest.param(["spans"], marks=NEEDS_OTEL),
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_command_shows_a_secret(
    case: Case, arguments: list[str], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    run([*arguments, str(case.path)])
    shown = capsysbinary.readouterr()
    assert shown.out or "--strict" in arguments or arguments[0] == "table"
    assert secrets.found_in(case.secrets, shown.out + shown.err) == set()
    if "csv" in arguments:
        cells = [cell for row in csv.reader(io.StringIO(shown.out.decode())) for cell in row]
        assert secrets.found_in(case.secrets, "\n".join(cells).encode()) == set()


def test_no_parquet_file_has_a_secret(case: Case, tmp_path: Path) -> None:
    options = ["--records", "--payload", "--bodies", "--verify-crc"]
    run(["dissect", str(case.path), "-o", str(tmp_path), *options])
    files = sorted(tmp_path.glob("*.parquet"))
    assert [path.stem for path in files] == sorted(TABLES)
    for path in files:
        for column in pq.read_table(path).columns:
            values = [value for value in column.to_pylist() if isinstance(value, bytes | str)]
            texts = (value if isinstance(value, bytes) else value.encode() for value in values)
            assert secrets.found_in(case.secrets, b"\n".join(texts)) == set()


def test_no_value_of_the_library_has_a_secret(case: Case) -> None:
    shown: list[Any] = []
    for exchange in kdissect.dissect(str(case.path), payload=True, verify_crc=True):
        shown += [exchange, exchange.columns]
        shown += [slots(error) for error in exchange.errors]
        shown += [slots(partition) for partition in exchange.partitions]
        for side in ("request", "response"):
            shown.append(exchange.frame_bytes(side))
            try:
                shown.append(exchange.body(side))
            except DecodeError as error:
                shown += [str(error), repr(error), error.data, error.hexdump()]
    for value in shown:
        raw = value if isinstance(value, bytes) else repr(value).encode()
        assert secrets.found_in(case.secrets, raw) == set()


def raised(error: KdissectError) -> Iterator[str]:
    """All text of an error: itself, its traceback, the command line's message."""
    yield from traceback.format_exception(error)
    yield repr(error)
    with redirect_stderr(io.StringIO()) as said:
        report(error)
    yield said.getvalue()
    if isinstance(error, DecodeError):
        yield from (error.hexdump(), repr(error.data))


def decoded_anyhow(exchange: DissectedExchange, side: str) -> Iterator[DecodeError]:
    """The errors of all decoders over a frame, cut short and with a byte too many."""
    frame = exchange.raw_frame(side)
    key, version = exchange.api_key, exchange.api_version
    offset = 0
    with suppress(DecodeError):
        if side == "request":
            offset = int(read_request_header(frame).body_offset)
        else:
            offset = int(response_body_offset(key, version, frame))
    asked = exchange.raw_frame("request")
    for end in {*range(offset, len(frame), max(1, (len(frame) - offset) // 7)), len(frame)}:
        data = frame[:end] + (b"\x7f" if end == len(frame) else b"")
        try:
            kdissect.decode(key, version, side, data[offset:])
        except DecodeError as error:
            yield error
        try:
            if side == "request":
                kdissect.decode_request(data)
            else:
                kdissect.decode_response(key, version, data, asked)
        except DecodeError as error:
            yield error


@pytest.mark.slow
def test_no_error_and_no_traceback_shows_a_secret(case: Case) -> None:
    count = 0
    texts: set[str] = set()
    for exchange in kdissect.dissect(str(case.path)):
        for side in ("request", "response"):
            if exchange.raw_frame(side) and exchange.api_key in APIS:
                for error in decoded_anyhow(exchange, side):
                    count += 1
                    texts.update(raised(error))
    assert count > 20
    for table in TABLES:
        reading = kdissect.read(str(case.path), table=table, strict=True, payload=True)
        try:
            list(reading)
        except ProblemFound as found:
            texts.update(raised(found))
    assert secrets.found_in(case.secrets, "\n".join(texts).encode()) == set()


def test_the_search_finds_a_secret_in_an_error(case: Case) -> None:
    """Control: an error with the bytes of a secret shows it."""
    secret = min(case.secrets, key=len)
    error = DecodeError("no", offset=len(secret), data=secret + b"!")
    shown = "\n".join(raised(error)).encode()
    assert secrets.found_in({secret}, shown) == {secret}


def slots(value: Any) -> list[Any]:
    return [getattr(value, name) for name in dir(value) if not name.startswith("__")]


def test_the_made_capture_has_every_kind_of_secret() -> None:
    """Each secret value of the conversations is on the wire, where the search finds it."""
    assert secrets.found_in(set(SECRETS), secret_talks().pcap()) == set(SECRETS)


def test_no_output_shows_a_login_or_a_key_of_a_capture_over_tls(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Secrets in decrypted data are hidden, and so are the keys."""
    path = CAPTURES / "tls" / "tls-sasl-4.3.1.pcapng"
    with open_captures(str(path)) as capture:
        lines = b"\n".join(block.content for block in capture.find_secrets())
    keys = {bytes.fromhex(line.split()[2].decode()) for line in lines.splitlines()}
    known = secrets.secrets_of(path) | keys
    assert len(keys) > 20
    assert len(known) > len(keys) + 5
    for arguments in (
        ["summary"], ["show", "--payload"], ["show", "--payload", "--format", "jsonl"],
        *(["table", name, "--format", "jsonl", "--payload"] for name in TABLES),
    ):  # fmt: skip
        run([*arguments, str(path)])
        shown = capsysbinary.readouterr()
        assert shown.out or arguments[0] == "table"
        assert secrets.found_in(known, shown.out + shown.err) == set()
    rows = kdissect.read(str(path), table="connections", columns=["sasl_mechanism", "sasl_outcome"])
    assert {row["sasl_mechanism"] for row in rows.to_arrow().to_pylist()} >= {
        "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512",
    }  # fmt: skip
