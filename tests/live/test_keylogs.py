import os
from pathlib import Path

import pytest

from kdissect.errors import CaptureError
from kdissect.live.keylogs import TailedKeyLogs
from kdissect.tls.keylog import KeyLog


def line(number: int) -> bytes:
    return b"CLIENT_RANDOM %064x %096x\n" % (number, number)


def opened(path: Path) -> tuple[TailedKeyLogs, KeyLog]:
    logs = TailedKeyLogs(path)
    logs.begin()
    return logs, logs.keys


def numbers(keys: KeyLog) -> list[int]:
    known = [keys.find("CLIENT_RANDOM", number.to_bytes(32)) for number in range(10)]
    return [number for number, secret in enumerate(known) if secret is not None]


def test_lines_count_when_they_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(line(1) + line(2)[:50])
    logs, keys = opened(path)
    assert (numbers(keys), keys.problems) == ([1], [])
    with path.open("ab") as file:
        file.write(line(2)[50:] + line(3)[:-1])
    logs.read_on()
    assert numbers(keys) == [1, 2]
    with path.open("ab") as file:
        file.write(b"\n")
    logs.read_on()
    assert (numbers(keys), keys.problems) == ([1, 2, 3], [])
    logs.close()
    logs.close()


def test_a_log_that_was_written_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(line(1) + line(2))
    logs, keys = opened(path)
    path.write_bytes(line(5))
    logs.read_on()
    assert numbers(keys) == [1, 2, 5]
    logs.close()


def test_reopened_key_logs_use_the_current_file_contents(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(line(1))
    logs, keys = opened(path)
    path.rename(tmp_path / "old")
    path.write_bytes(line(2))
    logs.reopen()
    assert numbers(keys) == [2]
    path.unlink()
    logs.reopen()
    assert numbers(keys) == [2]
    assert [problem.kind for problem in keys.problems] == ["keylog-unreadable"]
    text = f"{path}: No such file or directory; the one that is open is read on"
    assert keys.problems[0].message == text
    logs.close()


def test_a_wrong_line_is_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(line(1) + b"nonsense\n")
    logs, keys = opened(path)
    logs.read_on()
    assert [problem.kind for problem in keys.problems] == ["bad-keylog-line"]
    logs.close()


def test_a_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file"):
        TailedKeyLogs(tmp_path / "keys")
    with pytest.raises(CaptureError, match="Is a directory"):
        TailedKeyLogs(tmp_path)


def test_one_of_several_logs_that_cannot_be_opened_leaves_none_open(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(line(1))
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208  # of the kernel, no files
    with pytest.raises(CaptureError, match="No such file"):
        TailedKeyLogs([path, tmp_path / "other"])
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_without_logs_nothing_is_done() -> None:
    logs = TailedKeyLogs(())
    logs.begin()
    logs.keys.add(line(1), "block")
    logs.read_on()
    logs.reopen()
    assert numbers(logs.keys) == [1]


@pytest.mark.parametrize("content", [b"nonsense\n", b"nonsense", line(1)[:50]])
def test_a_file_that_is_no_key_log_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "keys"
    path.write_bytes(content)
    logs = TailedKeyLogs(path)
    with pytest.raises(CaptureError, match="line 1: not a line of a TLS key log"):
        logs.begin()
    logs.close()


def test_the_same_log_twice_and_an_empty_one_are_no_errors(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(line(1))
    empty = tmp_path / "empty"
    empty.touch()
    logs = TailedKeyLogs([path, path, empty])
    logs.begin()
    assert (numbers(logs.keys), logs.keys.problems) == ([1], [])
    logs.close()


def test_a_log_is_read_by_the_file_that_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(line(1))
    logs = TailedKeyLogs(path)
    path.unlink()
    path.write_bytes(line(2))
    logs.begin()
    assert numbers(logs.keys) == [1]
    logs.close()


def test_a_pipe_is_read_to_its_end() -> None:
    """Pipe as a shell makes for ``--keylog <(command)``."""
    source, sink = os.pipe()
    os.write(sink, line(1) + line(2))
    logs = TailedKeyLogs(f"/dev/fd/{source}")
    os.write(sink, line(3))
    os.close(sink)
    logs.begin()
    assert (numbers(logs.keys), logs.keys.problems) == ([1, 2, 3], [])
    logs.read_on()
    logs.close()
    os.close(source)
