import json
import os
import pwd
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kdissect.errors import KdissectError, OutputError
from kdissect.live.privileges import check_directory, check_user, find_user, give_directory

NOBODY = pwd.getpwnam("nobody")
NO_CAPABILITIES = dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapAmb"), 0)
REPORT = """
import json, os, pwd, socket, threading
from pathlib import Path
from kdissect.errors import KdissectError
from kdissect.live.privileges import *
def report():
    lines = [line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines()]
    status = {name: value.strip() for name, value in lines}
    sets = {name: int(value, 16) for name, value in status.items() if name.startswith("Cap")}
    print(json.dumps({
        "sets": sets, "uids": os.getresuid(), "gids": os.getresgid(), "groups": os.getgroups(),
        "no_new_privs": status["NoNewPrivs"],
    }))
"""
# A process that has CAP_NET_RAW alone, as systemd's AmbientCapabilities= makes one.
NET_RAW_ALONE = """
def net_raw_alone(user):
    import ctypes
    libc = ctypes.CDLL(None)
    libc.prctl(8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
    os.setgroups([]); os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    one = 1 << 13
    assert libc.capset(header, (ctypes.c_uint32 * 6)(one, one, one, 0, 0, 0)) == 0
    assert libc.prctl(47, 2, 13, 0, 0) == 0  # PR_CAP_AMBIENT_RAISE
"""


@pytest.fixture
def _root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")


def told_by(code: str) -> dict[str, object]:
    """What a process of its own says at its end."""
    program = REPORT + NET_RAW_ALONE + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.usefixtures("_root")
def test_root_becomes_a_user_without_capabilities_or_a_way_back(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:2]:
        parent.chmod(0o755)
    output = tmp_path / "tables"
    told = told_by(
        f"""
        user = check_user("nobody")
        give_directory(Path({str(output)!r}), user)
        drop_privileges(user)
        check_directory(Path({str(output)!r}))
        Path({str(output / "file")!r}).write_text("mine")
        for call in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0])):
            try:
                call()
            except PermissionError:
                continue
            raise SystemExit("there is a way back")
        report()
        """
    )
    assert told == {
        "sets": {**NO_CAPABILITIES, "CapBnd": 0},
        "uids": [NOBODY.pw_uid] * 3,
        "gids": [NOBODY.pw_gid] * 3,
        "groups": os.getgrouplist("nobody", NOBODY.pw_gid),
        "no_new_privs": "1",
    }
    assert output.stat().st_uid == (output / "file").stat().st_uid == NOBODY.pw_uid


@pytest.mark.usefixtures("_root")
def test_capture_goes_on_after_the_drop_and_another_socket_is_refused() -> None:
    told_by(
        """
        try:
            sniffing = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        except PermissionError:
            raise SystemExit("no packet sockets")
        sniffing.bind(("lo", 3))
        sniffing.settimeout(10)
        drop_privileges(pwd.getpwnam("nobody"))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as talking:
            talking.bind(("127.0.0.1", 0))
            talking.sendto(b"to myself", talking.getsockname())
            while b"to myself" not in sniffing.recv(65536):
                pass
        sniffing.bind(("lo", 3))
        try:
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        except PermissionError:
            report()
        """
    )


@pytest.mark.usefixtures("_root")
def test_a_process_with_net_raw_alone_gives_that_up() -> None:
    told = told_by(
        """
        net_raw_alone(pwd.getpwnam("nobody"))
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0):
            drop_privileges(None)
        report()
        """
    )
    sets = told["sets"]
    assert isinstance(sets, dict)
    assert {name: sets[name] for name in NO_CAPABILITIES} == NO_CAPABILITIES
    assert told["no_new_privs"] == "1"


@pytest.mark.usefixtures("_root")
def test_a_thread_that_keeps_capabilities_is_an_error() -> None:
    told_by(
        """
        net_raw_alone(pwd.getpwnam("nobody"))
        done = threading.Event()
        threading.Thread(target=done.wait, daemon=True).start()
        try:
            drop_privileges(None)
        except KdissectError as error:
            assert "CapEff of thread" in str(error) and "is 2000" in str(error), error
            report()
        done.set()
        """
    )


@pytest.mark.usefixtures("_root")
def test_who_is_not_root_cannot_become_another_user() -> None:
    told_by(
        """
        os.setresuid(65534, 65534, 65534)
        assert check_user("nobody").pw_uid == 65534
        try:
            check_user("root")
        except KdissectError as error:
            assert str(error).startswith("only root can become the user 'root'"), error
            report()
        """
    )


@pytest.mark.parametrize("name", ["no-such-user", "4000000000", "99999999999999999999"])
def test_a_user_that_is_not_there_is_an_error(name: str) -> None:
    with pytest.raises(KdissectError, match=f"no user '{name}' on this host; make one with"):
        check_user(name)


def test_a_user_can_be_a_number() -> None:
    assert find_user(str(NOBODY.pw_uid)) == NOBODY


@pytest.mark.usefixtures("_root")
def test_a_directory_with_something_in_it_stays_whose_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    give_directory(tmp_path, NOBODY)
    assert tmp_path.stat().st_uid == 0
    made = tmp_path / "made"
    give_directory(made, NOBODY, is_secret=True)
    assert (made.stat().st_uid, made.stat().st_mode & 0o777) == (NOBODY.pw_uid, 0o700)


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="Not a directory"):
        give_directory(tmp_path / "file" / "tables", None)


def test_a_directory_that_cannot_be_written_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_directory(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OutputError, match="give it to that user with: chown -R "):
        check_directory(tmp_path)
