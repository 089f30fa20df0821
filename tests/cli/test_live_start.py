"""Resources opened with privileges; ways to start are tested in tests/live."""

import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kdissect.cli.live import start as live_start
from kdissect.cli.live.options import Address
from kdissect.cli.live.start import Needs, opened
from kdissect.dissection.options import Options
from kdissect.errors import CaptureError, KdissectError, OutputError
from kdissect.live.privileges import Dropped
from kdissect.live.source_choice import Asked

CAPTURE = Path(__file__).parents[2] / "captures" / "quickstart.pcapng"
# Modules that start threads when they are imported, or import such modules.
HEAVY = ("pyarrow", "numpy", "pandas", "duckdb", "ibis", "textual", "prometheus_client")


@pytest.mark.parametrize(
    "module", ["kdissect.cli.live.start", "kdissect.cli.live.command", "kdissect.cli.top.command"]
)
def test_privileged_code_imports_no_module_that_starts_a_thread(module: str) -> None:
    program = (
        f"import os, sys, {module}; print(len(os.listdir('/proc/self/task')),"
        f" [name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "1 []\n"


def test_all_that_was_asked_for_is_open_and_closed_afterwards(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.touch()
    needs = Needs(
        Asked([str(CAPTURE)]),
        Options(keylog=str(keys)),
        (),
        directory=tmp_path / "tables",
        metrics=Address("127.0.0.1", 0),
    )
    with opened(needs) as had:
        assert had.bound is not None
        assert had.bound.getsockname()[0] == "127.0.0.1"
        # It does not listen yet.
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(had.bound.getsockname(), timeout=5)
        assert (tmp_path / "tables").is_dir()
        assert not had.notifier.is_heard
        had.keylogs.begin()
        assert had.packet_source.names == [str(CAPTURE)]
    assert had.bound.fileno() == -1


def test_open_failures_are_reported_before_privileges_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_start, "drop_privileges", lambda _: pytest.fail("too late"))
    monkeypatch.setattr(live_start, "must_drop", lambda _: True)
    monkeypatch.setattr(live_start, "check_alone", lambda _: None)
    asked = Asked([str(CAPTURE)])
    (tmp_path / "file").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for error, needs in (
            (CaptureError, Needs(Asked([str(tmp_path / "no")]), Options(), ())),
            (CaptureError, Needs(asked, Options(keylog=str(tmp_path / "no")), ())),
            (OutputError, Needs(asked, Options(), (), metrics=Address("127.0.0.1", port))),
            (OutputError, Needs(asked, Options(), (), directory=tmp_path / "file" / "tables")),
            (KdissectError, Needs(asked, Options(), (), user="no-such-user")),
        ):
            with pytest.raises(error), opened(needs):
                pass


def test_an_unimportable_module_is_an_error_that_names_the_user() -> None:
    with (
        pytest.raises(KdissectError, match=r"no_such cannot be imported by the user \d+.*/opt/kdi"),
        opened(Needs(Asked([str(CAPTURE)]), Options(), ("kdissect.no_such",))),
    ):
        pass


def test_all_threads_are_checked_once_all_others_have_begun(tmp_path: Path) -> None:
    """Threads of files, lines and metrics start when their listener begins."""
    from kdissect.cli.live.plan import Plan
    from kdissect.cli.live.run import Parts

    class Counted(Dropped):
        checks = 0

        def check(self) -> None:
            self.checks += 1

    asked = Asked([str(CAPTURE)])
    dropped = Counted(None, 0, is_alone=True)
    with opened(Needs(asked, Options(), (), metrics=Address("127.0.0.1", 0))) as had:
        plan = Plan(asked, Options(), tmp_path, is_json=True, duration_s=1.0)
        listeners = Parts(plan, replace(had, dropped=dropped)).listeners
        assert Parts(plan, replace(had, dropped=None)).listeners[-1] is not listeners[-1]
    assert len(listeners) == 6
    listeners[-1].begin(None)  # type: ignore[arg-type]  # it looks at threads alone
    assert dropped.checks == 1
