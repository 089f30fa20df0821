import pytest

from kdissect.cli.progress import Progress, line


def test_the_line_has_bytes_rate_and_time_left() -> None:
    text = "500 MB of 2 GB (25%)  100 MB/s  15 s left"
    assert line(500_000_000, 2_000_000_000, 5.0) == text


def test_the_line_of_a_pipe_has_no_total() -> None:
    assert line(500_000_000, None, 5.0) == "500 MB  100 MB/s"


def test_nothing_is_shown_when_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.report(10, 20)
    assert capsys.readouterr().err == ""


def test_the_line_is_gone_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdissect.cli.progress.SHOW_AFTER_SECONDS", 0)
    with Progress(is_wanted=True) as progress:
        progress.report(10, 20)
    shown = capsys.readouterr().err
    assert "10 B of 20 B (50%)" in shown
    assert shown.endswith("\r\x1b[K")
