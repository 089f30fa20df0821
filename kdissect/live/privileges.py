"""Dropping of the privileges needed to open sockets: user, groups and capabilities, for good.

Each thread has its own privileges (`credentials`), and a new one inherits those of the thread that
starts it. So they are dropped while the process has a single thread, and everything that starts
threads comes afterwards, including the import of pyarrow and numpy. `Dropped.check` checks each.
"""

import ctypes
import os
import pwd
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from kdissect.errors import KdissectError, OutputError
from kdissect.live.credentials import (
    BOUNDING_SET,
    IS_LINUX,
    USABLE_SETS,
    Credentials,
    all_credentials,
)
from kdissect.live.listener import Listener, LiveCapture, Status

# <linux/prctl.h>, <linux/capability.h>
PR_CAPBSET_DROP: Final = 24
PR_SET_NO_NEW_PRIVS: Final = 38
PR_CAP_AMBIENT: Final = 47
PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
CAPABILITY_VERSION_3: Final = 0x2008_0522
# Two words of 32 capabilities, each with effective, permitted and inheritable.
CAPABILITY_WORDS: Final = 6
MAX_CAPABILITIES: Final = 64
CAP_SETPCAP: Final = 8
CAP_NET_ADMIN: Final = 12
CAP_NET_RAW: Final = 13
# Used for opening packet sockets only.
CAPTURING: Final = 1 << CAP_NET_RAW | 1 << CAP_NET_ADMIN
THREADS_TOLD: Final = 5
CHECK_NS: Final = 60_000_000_000


class Dropped:
    """The privileges dropped; `check` verifies that, and may be called at any time.

    `bounding` is the bounding set of every thread. `alone` is false for a process without
    capabilities in which other threads were already running.
    """

    def __init__(self, user: pwd.struct_passwd | None, bounding: int, is_alone: bool) -> None:
        self._user = user
        self._bounding = bounding
        self._is_alone = is_alone

    def check(self) -> None:
        """Raise KdissectError if a thread has, or can gain, more than it should."""
        if IS_LINUX and (left := list(self._left(all_credentials()))):
            raise KdissectError(f"privileges could not be given up: {_several(left)}")

    def _left(self, threads: Iterable[Credentials]) -> Iterator[str]:
        for one in threads:
            if self._user is not None:
                yield from _of_another_user(one, self._user)
            for name in USABLE_SETS:
                if one.sets[name]:
                    yield f"{name} of {one} is {one.sets[name]:x}"
            if one.sets[BOUNDING_SET] != self._bounding:
                yield f"{BOUNDING_SET} of {one} is {one.sets[BOUNDING_SET]:x}"
            if self._is_alone and not one.no_new_privs:
                yield f"NoNewPrivs of {one} is 0"


class ThreadCheck(Listener):
    """Checks all threads once they have started, and once a minute those that come later."""

    def __init__(self, dropped: Dropped) -> None:
        self._dropped = dropped
        self._next_ns = 0

    def begin(self, watcher: LiveCapture) -> None:
        self._dropped.check()

    def tick(self, status: Status) -> None:
        if status.now_ns >= self._next_ns:
            self._next_ns = status.now_ns + CHECK_NS
            self._dropped.check()


def find_user(name: str) -> pwd.struct_passwd:
    """Find a user by name or number; raises KdissectError."""
    try:
        return pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except (KeyError, OverflowError):
        raise KdissectError(
            f"no user {name!r} on this host; make one with: "
            f"useradd --system --shell /usr/sbin/nologin {name}"
        ) from None


def check_user(name: str) -> pwd.struct_passwd | None:
    """The user to become, None if this process already is that user and not root.

    Raises KdissectError with advice if it may not become the user.
    """
    user = find_user(name)
    if os.geteuid() == 0:
        return user
    if os.getuid() == os.geteuid() == user.pw_uid:
        return None
    raise KdissectError(
        f"only root can become the user {name!r}; start kdissect with sudo, or as that user "
        "with CAP_NET_RAW alone, as docs/kdissect-live.service does"
    )


def must_drop(user: pwd.struct_passwd | None) -> bool:
    """Return whether to drop privileges: not as root without a user given.

    It may need them for files. If it has only those to capture, as in a container, it has no other
    use for them.
    """
    if user is not None or os.geteuid() != 0:
        return True
    return IS_LINUX and not any(one.usable & ~CAPTURING for one in all_credentials())


def drop_privileges(user: pwd.struct_passwd | None) -> Dropped:
    """Become `user`, if given, and drop all capabilities for good.

    Raises KdissectError if any privilege remains, and before any change if there are threads that
    would keep theirs.
    """
    before = all_credentials() if IS_LINUX else []
    check_alone(user, before)
    _forbid_new_privileges()
    _drop_bounding_set()
    if user is not None:
        _become(user)
    _clear_capabilities()
    dropped = Dropped(user, _bounding_after(before), len(before) < 2)
    dropped.check()
    if os.geteuid() != 0 and _can_come_back():
        raise KdissectError("privileges could not be given up: it can become root again")
    return dropped


def check_alone(
    user: pwd.struct_passwd | None, threads: Sequence[Credentials] | None = None
) -> None:
    """Raise KdissectError if there are threads that would keep privileges."""
    if threads is None:
        threads = all_credentials() if IS_LINUX else []
    if len(threads) < 2 or (user is None and not any(one.usable for one in threads)):
        return
    others = [str(one) for one in threads if one.thread != threading.get_native_id()]
    raise KdissectError(
        f"privileges cannot be given up: {_several(others)} would keep them. kdissect starts its "
        "threads later, so what Python imports at its start did that: look for sitecustomize.py, "
        "usercustomize.py and .pth files, also in PYTHONPATH, or start it with another Python"
    )


def give_directory(
    directory: Path, user: pwd.struct_passwd | None, is_secret: bool = False
) -> None:
    """Create the output directory, owned by `user` if given; raises OutputError.

    A non-empty directory keeps its owner. With `is_secret` it is private to its owner.
    """
    try:
        made = not directory.exists()
        directory.mkdir(0o700 if is_secret else 0o755, parents=True, exist_ok=True)
        if user is not None and (made or not any(directory.iterdir())):
            os.chown(directory, user.pw_uid, user.pw_gid)
    except OSError as error:
        raise OutputError(f"cannot write to {directory}: {error.strerror}") from error


def check_directory(directory: Path) -> None:
    """Raise OutputError if this process, as it is now, may not write to the directory."""
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
    """Keep programs started from here on from gaining privileges by a set-user-id bit."""
    if IS_LINUX and _libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        reason = os.strerror(ctypes.get_errno())
        raise KdissectError(f"PR_SET_NO_NEW_PRIVS: {reason}")


def _drop_bounding_set() -> None:
    """With CAP_SETPCAP, as root has it, clear the bounding set too."""
    if IS_LINUX:
        for number in range(MAX_CAPABILITIES):
            if _libc().prctl(PR_CAPBSET_DROP, number, 0, 0, 0):
                return


def _bounding_after(before: Sequence[Credentials]) -> int:
    """Expected bounding set now: without CAP_SETPCAP it cannot be reduced."""
    mine = [one.sets for one in before if one.thread == threading.get_native_id()]
    if not mine or mine[0]["CapEff"] & 1 << CAP_SETPCAP:
        return 0
    return mine[0][BOUNDING_SET]


def _become(user: pwd.struct_passwd) -> None:
    try:
        os.initgroups(user.pw_name, user.pw_gid)
        os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
        os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    except OSError as error:
        raise KdissectError(
            f"cannot become the user {user.pw_name!r}: {error.strerror}; where root may not, as in "
            "a container without CAP_SETUID and CAP_SETGID, start kdissect as that user"
        ) from error


def _clear_capabilities() -> None:
    if not IS_LINUX:
        return
    libc = _libc()
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * CAPABILITY_WORDS)()
    if libc.capset(header, nothing):
        raise KdissectError(f"capset: {os.strerror(ctypes.get_errno())}")


def _of_another_user(one: Credentials, user: pwd.struct_passwd) -> Iterator[str]:
    if set(one.users) != {user.pw_uid} or set(one.groups) != {user.pw_gid}:
        yield f"{one} is user {one.users}, group {one.groups}"
    if more := one.supplementary - set(os.getgrouplist(user.pw_name, user.pw_gid)):
        yield f"{one} is in the groups {sorted(more)}"


def _can_come_back() -> bool:
    try:
        os.setuid(0)
    except OSError:
        return False
    return True


def _several(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - THREADS_TOLD} more" if len(texts) > THREADS_TOLD else ""
    return f"{'; '.join(texts[:THREADS_TOLD])}{more}"
