"""Key logs: lines, files, blocks of pcapng files; and no output that has anything of a secret."""

import gzip
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kdissect
from kdissect.cli.program import run
from kdissect.errors import CaptureError
from kdissect.system.extras import install_command
from kdissect.tables.schemas import TABLES
from kdissect.tls.keylog import MASTER, MAX_BAD_LINES, SESSION, KeyLog, read_keylog
from tests.capture.writers import (
    make_enhanced_packet,
    make_interface_block,
    make_secrets,
    make_section_header,
)
from tests.captures import secrets
from tests.exchange_builders import request, response
from tests.tls.reading import run_tables
from tests.tls.talks import Setup, Talk, make_talk

RANDOM, MASTER_SECRET = bytes(range(32)), bytes(range(100, 148))
LINE = b"CLIENT_RANDOM " + RANDOM.hex().encode() + b" " + MASTER_SECRET.hex().encode()
TLS_KEY_LOG = 0x544C534B


@pytest.fixture(scope="module")
def talk() -> Talk:
    turns = [
        (True, request("Heartbeat", 4, 1, group_id="g")), (False, response("Heartbeat", 4, 1)),
    ]  # fmt: skip
    return make_talk(Setup("TLS 1.3"), turns)


def pcapng(talk: Talk, first: bytes = b"", last: bytes = b"") -> bytes:
    packets = [
        make_enhanced_packet("<", packet.data, packet.time_ns // 1000)
        for packet in talk.conversation().close().captured()
    ]
    start = make_section_header("<") + make_interface_block("<", 1)
    return start + first + b"".join(packets) + last


def apis(tables: dict[str, list[dict[str, object]]]) -> list[object]:
    return [row["api"] for row in tables["exchanges"]]


def test_lines_of_a_key_log_are_read() -> None:
    log = KeyLog()
    log.add(b"# a comment\r\n\r\n" + LINE + b"\r\nEXPORTER_SECRET " + b"00 11\n", "log")
    assert log.find(MASTER, RANDOM) == MASTER_SECRET
    assert log.find(MASTER, bytes(32)) is None
    assert len(log) == 1
    assert log.problems == []


def test_lines_by_session_id_are_read() -> None:
    log = KeyLog()
    secret = MASTER_SECRET.hex().encode()
    log.add(b"RSA Session-ID:0011aa Master-Key:" + secret + b"\n", "log")
    log.add(b"RSA Session-ID: Master-Key:" + secret + b"\nRSA 0011223344556677 " + secret, "log")
    assert log.find(SESSION, bytes.fromhex("0011aa")) == MASTER_SECRET
    assert log.has_any(RANDOM, bytes.fromhex("0011aa"))
    assert not log.has_any(RANDOM)
    assert (len(log), log.problems) == (1, [])


@pytest.mark.parametrize(
    "line",
    [b"CLIENT_RANDOM", LINE[:-1], LINE[:-2], LINE + b" 00", b"hello", LINE.replace(b"1", b"x"),
     b"RSA Session-ID:00", b"RSA Session-ID:0g Master-Key:" + LINE.split()[2],
     b"RSA Session-ID:00 Master-Key:00", b"RSA Session-ID:" + b"00" * 33 + b" Master-Key:00",
     b"SERVER_TRAFFIC_SECRET_0 " + RANDOM.hex().encode() + b" 00", b"\xff\xfe C\0L\0"],
)  # fmt: skip
def test_a_bad_line_is_reported_by_number_only(line: bytes) -> None:
    log = KeyLog()
    log.add(LINE + b"\n" + line + b"\n", "keys.log")
    assert [(problem.kind, problem.message) for problem in log.problems] == [
        ("bad-keylog-line", "keys.log, line 2: not a line of a TLS key log")
    ]
    assert len(log) == 1


def test_many_bad_lines_are_reported_together() -> None:
    log = KeyLog()
    log.add(b"no\n" * 1000, "keys.log")
    assert len(log.problems) == MAX_BAD_LINES + 1
    assert log.problems[-1].message == "keys.log: 990 more lines are not of a TLS key log"


def test_the_number_of_secrets_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdissect.tls.keylog.MAX_SECRETS", 3)
    lines = [LINE.replace(b"00010203", b"%08d" % number) for number in range(9)]
    log = KeyLog()
    log.add(b"\n".join(lines), "keys.log")
    assert [problem.kind for problem in log.problems] == ["keylog-limit"]
    assert len(log) == 4


@given(
    st.binary(max_size=300) | st.lists(st.sampled_from(LINE.split() + [b"\n", b"#"])).map(b" ".join)
)
def test_any_bytes_are_lines_or_problems(content: bytes) -> None:
    log = KeyLog()
    log.add(content, "log")
    assert {problem.kind for problem in log.problems} <= {"bad-keylog-line"}


def test_a_file_that_is_no_key_log_is_an_error(tmp_path: Path) -> None:
    for name, content, said in (
        ("cert.pem", b"-----BEGIN CERTIFICATE-----\n", "not a TLS key log"),
        ("missing", None, "No such file"),
    ):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(CaptureError, match=said):
            read_keylog(path, KeyLog())
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    read_keylog(empty, KeyLog())


def test_bad_lines_of_a_file_are_rows(talk: Talk, tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    path.write_bytes(talk.keylog + b"rubbish\n")
    tables = run_tables(talk.conversation().close().pcap(), keylog=path)
    assert [(row["stage"], row["kind"]) for row in tables["problems"]] == [
        ("tls", "bad-keylog-line")
    ]
    assert apis(tables) == ["Heartbeat"]


def test_several_key_logs_are_one(talk: Talk, tmp_path: Path) -> None:
    lines = talk.keylog.splitlines(keepends=True)
    paths = []
    for number, line in enumerate(lines):
        path = tmp_path / f"{number}.log"
        path.write_bytes(line)
        paths.append(path)
    tables = run_tables(talk.conversation().pcap(), keylog=tuple(paths))
    assert apis(tables) == ["Heartbeat"]


def test_secrets_may_be_anywhere_in_a_pcapng_file(talk: Talk, tmp_path: Path) -> None:
    block = make_secrets("<", TLS_KEY_LOG, talk.keylog)
    assert apis(run_tables(pcapng(talk, first=block))) == ["Heartbeat"]
    # At the end, behind more than is read at a time.
    filling = make_secrets("<", 7, bytes(3 << 20))
    for name, content in (
        ("late.pcapng", pcapng(talk, last=filling + block)),
        ("late.pcapng.gz", gzip.compress(pcapng(talk, last=filling + block))),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        rows = kdissect.read(str(path), columns=["api"]).to_arrow().to_pylist()
        assert rows == [{"api": "Heartbeat"}], name


def test_of_a_pipe_the_secrets_must_come_first(talk: Talk) -> None:
    block = make_secrets("<", TLS_KEY_LOG, talk.keylog)
    filling = make_secrets("<", 7, bytes(3 << 20))
    tables = run_tables(pcapng(talk, last=filling + block))
    assert apis(tables) == []
    assert [row["protocol"] for row in tables["connections"]] == ["tls"]


def test_secrets_of_other_kinds_are_passed_over(talk: Talk) -> None:
    tables = run_tables(pcapng(talk, first=make_secrets("<", 0x57474B4C, talk.keylog)))
    assert apis(tables) == []
    assert tables["problems"] == []


def test_the_command_line_takes_key_logs(
    talk: Talk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(talk.conversation().close().pcap())
    keylog = str(talk.keylog_file(tmp_path))
    assert run(["summary", "--full", str(path)]) == 0
    shown = capsys.readouterr()
    assert "encrypted: 1 TLS connection; --keylog FILE decrypts it" in shown.out
    assert "Try --keylog" in shown.err
    for arguments in (["summary"], ["show"], ["table", "exchanges"]):
        assert run([*arguments, str(path), "--keylog", keylog]) == 0
        assert "Heartbeat" in capsys.readouterr().out
    assert run(["dissect", str(path), "--keylog", keylog, "-o", str(tmp_path / "out")]) == 0
    assert run(["summary", "--full", str(path), "--keylog", str(tmp_path / "none")]) == 1
    assert "No such file" in capsys.readouterr().err


def test_the_library_takes_key_logs(talk: Talk, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(talk.conversation().close().pcap())
    keylog = talk.keylog_file(tmp_path)
    (exchange,) = kdissect.dissect(str(path), keylog=keylog)
    assert exchange.request["group_id"] == "g"
    assert kdissect.read(str(path), keylog=str(keylog)).to_arrow().num_rows == 1
    options = kdissect.Options(keylog=[keylog])
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301  # as Spark does
    assert sum(batch.num_rows for _, batch in kdissect.Run(str(path), options)) > 0


def test_key_log_without_the_package_is_an_error_that_names_the_extra(
    talk: Talk, tmp_path: Path
) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(pcapng(talk, first=make_secrets("<", TLS_KEY_LOG, talk.keylog)))
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from kdissect.cli.program import run\nsys.exit(run(sys.argv[1:]))"
    )
    keylog = str(talk.keylog_file(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", code, "summary", str(path), "--keylog", keylog],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert install_command("tls") in done.stderr
    assert "Traceback" not in done.stderr
    # Unused secrets, in the file itself, are no error.
    done = subprocess.run(
        [sys.executable, "-c", code, "table", "problems", str(path), "--format", "jsonl"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "tls-package-missing" in done.stdout


def test_no_output_has_anything_of_a_secret(
    talk: Talk, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    known = {
        bytes.fromhex(line.split()[2].decode())
        for line in talk.keylog.splitlines()
        if not line.startswith(b"#")
    }
    assert len(known) >= 4
    broken = talk.keylog + b"".join(line[:-2] + b"\n" for line in talk.keylog.splitlines())
    (tmp_path / "keys.log").write_bytes(broken)
    path = tmp_path / "a.pcapng"
    path.write_bytes(pcapng(talk, first=make_secrets("<", TLS_KEY_LOG, broken)))
    for arguments in (
        ["summary"], ["summary", "--format", "json"], ["show", "--payload"],
        *(["table", name, "--format", "jsonl", "--payload"] for name in TABLES),
        ["table", "problems", "--strict"],
    ):  # fmt: skip
        run([*arguments, str(path), "--keylog", str(tmp_path / "keys.log")])
        shown = capsysbinary.readouterr()
        assert shown.out or shown.err
        assert secrets.found_in(known, shown.out + shown.err) == set()
        for secret in known:
            assert secret.hex()[:16].encode() not in shown.out + shown.err
    log = KeyLog()
    log.add(broken, "log")
    assert secrets.found_in(known, repr(log).encode() + repr(log.problems).encode()) == set()
