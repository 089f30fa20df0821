import json
import os
import pwd
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kdissect.errors import KdissectError, OutputError
from kdissect.live import credentials
from kdissect.live.credentials import all_credentials, parse_status
from kdissect.live.privileges import check_directory, check_user, find_user, give_directory

NOBODY = pwd.getpwnam("nobody")
NO_CAPABILITIES = dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapAmb"), 0)
REPORT = """
import json, os, pwd, socket, sys, threading, time
from pathlib import Path
from kdissect.errors import KdissectError
from kdissect.live.credentials import all_credentials
from kdissect.live.privileges import *
import ctypes
libc = ctypes.CDLL(None)
FULL = all_credentials()[0].sets["CapBnd"]
def begin_thread():
    begun = threading.Event()
    def wait():
        begun.set()
        threading.Event().wait()
    threading.Thread(target=wait, daemon=True).start()
    begun.wait()
def no_new_privs():
    assert libc.prctl(38, 1, 0, 0, 0) == 0
def report():
    lines = [line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines()]
    status = {name: value.strip() for name, value in lines}
    sets = {name: int(value, 16) for name, value in status.items() if name.startswith("Cap")}
    sys.stdout.flush()
    print(json.dumps({
        "sets": sets, "uids": os.getresuid(), "gids": os.getresgid(), "groups": os.getgroups(),
        "no_new_privs": status["NoNewPrivs"],
    }))
"""
# A process that has CAP_NET_RAW alone, as systemd's AmbientCapabilities= makes one.
NET_RAW_ALONE = """
def net_raw_alone(user):
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
    """Last output of a separate process."""
    program = REPORT + NET_RAW_ALONE + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.usefixtures("_root")
def test_root_becomes_a_user_without_capabilities_or_a_way_back(shared_path: Path) -> None:
    output = shared_path / "tables"
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
        sniffing.settimeout(1)
        drop_privileges(pwd.getpwnam("nobody"))
        # The kernel drops packets where others fill the buffer: it is sent until it is seen.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as talking:
            talking.bind(("127.0.0.1", 0))
            deadline = time.monotonic() + 50
            packet = b""
            while b"to myself" not in packet:
                assert time.monotonic() < deadline
                talking.sendto(b"to myself", talking.getsockname())
                try:
                    packet = sniffing.recv(65536)
                except TimeoutError:
                    continue
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
@pytest.mark.parametrize("user", ["None", 'pwd.getpwnam("nobody")'])
def test_a_thread_that_would_keep_privileges_is_an_error_before_anything_is_done(user: str) -> None:
    told = told_by(
        f"""
        if {user} is None:
            net_raw_alone(pwd.getpwnam("nobody"))
        begin_thread()
        before = all_credentials()
        try:
            drop_privileges({user})
        except KdissectError as error:
            told = f": thread {{before[1].thread}} ({{before[1].name}}) would keep them."
            assert told in str(error), error
            assert all_credentials() == before
            report()
        """
    )
    assert told["no_new_privs"] == "0"


@pytest.mark.usefixtures("_root")
def test_threads_are_no_error_where_there_is_nothing_to_keep() -> None:
    """As in a program that uses kdissect, or in tests, of a user without capabilities."""
    told = told_by(
        """
        os.setresuid(65534, 65534, 65534)
        begin_thread()
        drop_privileges(None).check()
        report()
        """
    )
    assert told["no_new_privs"] == "1"


# Behaviour of a process that has not given up all privileges, and the messages about it. `%` is a
# thread.
LEFT = {
    "capabilities": (
        "net_raw_alone(nobody); no_new_privs()",
        "Dropped(None, FULL, True)",
        [
            "CapInh of % is 2000",
            "CapPrm of % is 2000",
            "CapEff of % is 2000",
            "CapAmb of % is 2000",
        ],
    ),
    "the bounding set": (
        "no_new_privs(); os.setresuid(65534, 65534, 65534)",
        "Dropped(None, 0, True)",
        ["CapBnd of % is {full}"],
    ),
    "programs with more rights": (
        "os.setresuid(65534, 65534, 65534)",
        "Dropped(None, FULL, True)",
        ["NoNewPrivs of % is 0"],
    ),
    "user and group": (
        "no_new_privs(); os.setgroups([]); os.setresgid(1, 65534, 65534); "
        "os.setresuid(65534, 65534, 1)",
        "Dropped(nobody, FULL, True)",
        ["% is user (65534, 65534, 1, 65534), group (1, 65534, 65534, 65534)"],
    ),
    "groups": (
        "no_new_privs(); os.setgroups([0, 7]); os.setresgid(65534, 65534, 65534); "
        "os.setresuid(65534, 65534, 65534)",
        "Dropped(nobody, FULL, True)",
        ["% is in the groups [0, 7]"],
    ),
}


@pytest.mark.usefixtures("_root")
@pytest.mark.parametrize("name", LEFT)
def test_remaining_privileges_of_a_thread_are_reported(name: str) -> None:
    before, dropped, told = LEFT[name]
    told_by(
        f"""
        nobody = pwd.getpwnam("nobody")
        {before}
        try:
            {dropped}.check()
        except KdissectError as error:
            thread = str(all_credentials()[0])
            name = Path("/proc/self/comm").read_text().strip()
            assert thread == f"thread {{os.getpid()}} ({{name}})"
            wanted = "; ".join({told!r}).replace("%", thread).replace("{{full}}", f"{{FULL:x}}")
            text = "privileges could not be given up: " + wanted
            assert str(error) == text, (str(error), text)
            report()
        """
    )


@pytest.mark.usefixtures("_root")
def test_remaining_privileges_of_another_thread_are_reported_with_its_name() -> None:
    """The thread was there before, and the calling one alone gives up its privileges."""
    told_by(
        """
        net_raw_alone(pwd.getpwnam("nobody"))
        begin_thread()
        no_new_privs()
        libc.prctl(47, 4, 0, 0, 0)  # PR_CAP_AMBIENT_CLEAR_ALL
        assert libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()) == 0
        try:
            Dropped(None, FULL, True).check()
        except KdissectError as error:
            other = all_credentials()[1]
            assert other.thread != os.getpid()
            for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
                assert f"{name} of {other} is 2000" in str(error), error
            assert f"NoNewPrivs of {other} is 0" in str(error), error
            assert f"of thread {os.getpid()} " not in str(error), error
            report()
        """
    )


STATUS = """\
Name:\ta:b c
Uid:\t1\t2\t3\t4
Gid:\t5\t6\t7\t8
Groups:\t9 10\x20
CapInh:\t0000000000000001
CapPrm:\t0000000000000002
CapEff:\t0000000000000004
CapBnd:\t000001ffffffffff
CapAmb:\t0000000000000008
NoNewPrivs:\t0
"""


def test_a_status_is_read_as_the_kernel_writes_it() -> None:
    one = parse_status(17, STATUS)
    assert one == (
        17, "a:b c", (1, 2, 3, 4), (5, 6, 7, 8), {9, 10},
        {"CapInh": 1, "CapPrm": 2, "CapEff": 4, "CapBnd": (1 << 41) - 1, "CapAmb": 8}, False,
    )  # fmt: skip
    assert (one.usable, str(one)) == (15, "thread 17 (a:b c)")


@pytest.mark.parametrize("field", ["Uid", "Gid", "Groups", "CapAmb", "NoNewPrivs"])
def test_a_kernel_may_tell_less(field: str) -> None:
    text = "".join(line for line in STATUS.splitlines(True) if not line.startswith(field))
    one = parse_status(17, text)
    assert one == parse_status(17, STATUS)._replace(
        **{
            "Uid": {"users": os.getresuid()},
            "Gid": {"groups": os.getresgid()},
            "Groups": {"supplementary": frozenset(os.getgroups())},
            "CapAmb": {"sets": {**one.sets, "CapAmb": 0}},
            "NoNewPrivs": {"no_new_privs": True},
        }[field]
    )


def test_without_proc_privileges_cannot_be_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(credentials, "TASKS", tmp_path / "none")
    with pytest.raises(KdissectError, match="none cannot be read, so privileges cannot be checked"):
        all_credentials()


@pytest.mark.usefixtures("_root")
def test_threads_that_start_later_are_looked_at_once_a_minute() -> None:
    told_by(
        """
        class Looking(Dropped):
            looks = 0
            def check(self):
                self.looks += 1
        class Now:
            def __init__(self, seconds): self.now_ns = seconds * 1_000_000_000
        looking = Looking(None, 0, True)
        listener = ThreadCheck(looking)
        listener.begin(None)
        assert looking.looks == 1
        for seconds in range(1_700_000_000, 1_700_000_000 + 121):
            listener.tick(Now(seconds))
        assert looking.looks == 1 + 3
        report()
        """
    )


@pytest.mark.usefixtures("_root")
def test_root_drops_privileges_on_request_or_without_other_capabilities() -> None:
    told_by(
        """
        assert must_drop(pwd.getpwnam("nobody")) and must_drop(pwd.getpwnam("root"))
        assert not must_drop(None)
        words = (ctypes.c_uint32 * 6)(1 << 13 | 1 << 12, 1 << 13 | 1 << 12, 0, 0, 0, 0)
        assert libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), words) == 0
        assert os.geteuid() == 0 and must_drop(None)
        drop_privileges(None)
        report()
        """
    )


@pytest.mark.usefixtures("_root")
def test_a_user_that_could_become_root_again_is_an_error() -> None:
    """As a program with a set-user-id bit could, that was left by its owner."""
    told_by(
        """
        os.setresuid(65534, 65534, 0)
        try:
            drop_privileges(None)
        except KdissectError as error:
            assert str(error).endswith("it can become root again"), error
            report()
        """
    )


@pytest.mark.usefixtures("_root")
def test_only_root_can_become_another_user() -> None:
    told_by(
        """
        os.setresuid(65534, 65534, 65534)
        assert check_user("nobody") is None
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
def test_a_nonempty_directory_keeps_its_owner(tmp_path: Path) -> None:
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


def test_unwritable_directory_error_has_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_directory(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OutputError, match="give it to that user with: chown -R "):
        check_directory(tmp_path)
