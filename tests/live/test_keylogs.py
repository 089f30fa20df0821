from pathlib import Path

import pytest

from kdissect.errors import CaptureError
from kdissect.live.keylogs import GrowingKeyLogs
from kdissect.tls.keylog import KeyLog, read_keylog


def line(number: int) -> bytes:
    return b"CLIENT_RANDOM %064x %096x\n" % (number, number)


def opened(path: Path) -> tuple[GrowingKeyLogs, KeyLog]:
    keys = KeyLog()
    read_keylog(path, keys)
    return GrowingKeyLogs(path, keys), keys


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


def test_reopened_only_what_is_in_the_files_then_counts(tmp_path: Path) -> None:
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


def test_a_wrong_line_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(line(1) + b"nonsense\n")
    logs, keys = opened(path)
    logs.read_on()
    assert [problem.kind for problem in keys.problems] == ["bad-keylog-line"]
    logs.close()


def test_a_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file"):
        GrowingKeyLogs(tmp_path / "keys", KeyLog())


def test_without_logs_nothing_is_done() -> None:
    keys = KeyLog()
    keys.add(line(1), "block")
    logs = GrowingKeyLogs((), keys)
    logs.read_on()
    logs.reopen()
    assert numbers(keys) == [1]
