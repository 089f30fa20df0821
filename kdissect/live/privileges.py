"""Letting go of what only opening sockets needed: user, groups and capabilities, with no way back.

capabilities(7): a thread has five sets of them. A process that leaves user 0 loses what it may do
at once (setuid(2)); one that was started with CAP_NET_RAW alone has to clear its sets itself.
"""

import ctypes
import os
import pwd
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kdissect.errors import KdissectError, OutputError

# <linux/prctl.h>, <linux/capability.h>
PR_CAPBSET_DROP: Final = 24
PR_SET_NO_NEW_PRIVS: Final = 38
PR_CAP_AMBIENT: Final = 47
PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
CAPABILITY_VERSION_3: Final = 0x2008_0522
# Two words of 32 capabilities, each with effective, permitted and inheritable.
CAPABILITY_WORDS: Final = 6
MAX_CAPABILITIES: Final = 64
# What /proc/PID/status calls the sets that a process can do something with.
USABLE_SETS: Final = ("CapInh", "CapPrm", "CapEff", "CapAmb")


def find_user(name: str) -> pwd.struct_passwd:
    """The user of that name or number; raises KdissectError."""
    try:
        return pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except (KeyError, OverflowError):
        raise KdissectError(
            f"no user {name!r} on this host; make one with: "
            f"useradd --system --shell /usr/sbin/nologin {name}"
        ) from None


def check_user(name: str) -> pwd.struct_passwd:
    """The user, when this process may become it; raises KdissectError with what to do."""
    user = find_user(name)
    if os.geteuid() == user.pw_uid:
        return user
    if os.geteuid() != 0:
        raise KdissectError(
            f"only root can become the user {name!r}; start kdissect with sudo, or as that user "
            "with CAP_NET_RAW alone, as docs/kdissect-live.service does"
        )
    return user


def drop_privileges(user: pwd.struct_passwd | None) -> None:
    """Become `user`, where there is one, and give up all capabilities for good.

    To be called before other threads start: each has its own. Raises KdissectError when anything
    is left after all.
    """
    _forbid_new_privileges()
    _drop_bounding_set()
    if user is not None and os.geteuid() != user.pw_uid:
        try:
            os.initgroups(user.pw_name, user.pw_gid)
            os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
            os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
        except OSError as error:
            text = f"cannot become the user {user.pw_name!r}: {error.strerror}"
            raise KdissectError(text) from error
    _clear_capabilities()
    if left := list(_left(user)):
        raise KdissectError(f"privileges could not be given up: {'; '.join(left)}")


def give_directory(
    directory: Path, user: pwd.struct_passwd | None, is_secret: bool = False
) -> None:
    """Make the output directory, for `user` where there is one; raises OutputError.

    One with something in it stays whose it is. With `is_secret` nobody else may look into it.
    """
    try:
        made = not directory.exists()
        directory.mkdir(0o700 if is_secret else 0o755, parents=True, exist_ok=True)
        if user is not None and (made or not any(directory.iterdir())):
            os.chown(directory, user.pw_uid, user.pw_gid)
    except OSError as error:
        raise OutputError(f"cannot write to {directory}: {error.strerror}") from error


def check_directory(directory: Path) -> None:
    """Raise OutputError when this process, as it is now, may not write to the directory."""
    if not os.access(directory, os.W_OK | os.X_OK):
        name = _user_name()
        raise OutputError(
            f"{directory} is not writable for the user {name!r}; give it to that user with: "
            f"chown -R {name} {directory}"
        )


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _forbid_new_privileges() -> None:
    """No program that is started from here on gets more by a set-user-id bit."""
    if sys.platform == "linux" and _libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        reason = os.strerror(ctypes.get_errno())
        raise KdissectError(f"PR_SET_NO_NEW_PRIVS: {reason}")


def _drop_bounding_set() -> None:
    """Where CAP_SETPCAP is there, as root has it: not even the limit of what can be had stays."""
    if sys.platform == "linux":
        for number in range(MAX_CAPABILITIES):
            if _libc().prctl(PR_CAPBSET_DROP, number, 0, 0, 0):
                return


def _clear_capabilities() -> None:
    if sys.platform != "linux" or os.geteuid() == 0:
        return
    libc = _libc()
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * CAPABILITY_WORDS)()
    if libc.capset(header, nothing):
        raise KdissectError(f"capset: {os.strerror(ctypes.get_errno())}")


def _left(user: pwd.struct_passwd | None) -> Iterator[str]:
    """What this process could still do and should not, in words."""
    if user is not None:
        if os.getresuid() != (user.pw_uid,) * 3 or os.getresgid() != (user.pw_gid,) * 3:
            yield f"it is user {os.getresuid()}, group {os.getresgid()}"
        if user.pw_uid != 0 and _can_come_back():
            yield "it can become root again"
    if sys.platform == "linux" and os.geteuid() != 0:
        for task in sorted(Path("/proc/self/task").iterdir()):
            for name, mask in _capabilities(task / "status"):
                if name in USABLE_SETS and mask:
                    yield f"{name} of thread {task.name} is {mask:x}"


def _can_come_back() -> bool:
    try:
        os.setuid(0)
    except OSError:
        return False
    return True


def _capabilities(status: Path) -> Iterator[tuple[str, int]]:
    for line in status.read_text().splitlines():
        name, _, value = line.partition(":")
        if name.startswith("Cap"):
            yield name, int(value, 16)
