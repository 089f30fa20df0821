"""Network namespaces of other processes: sockets that are opened inside stay there."""

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from kdissect.errors import CaptureError, CapturePermissionError
from kdissect.sources.interfaces import IS_LINUX

CLONE_NEWNET: Final = 0x40000000  # <sched.h>
OWN: Final = Path("/proc/thread-self/ns/net")


@contextmanager
def inside(process: int | None) -> Iterator[None]:
    """Open sockets in the network namespace of a process, by its id; None for the own namespace.

    It is that of this thread only, and that of before afterwards. Raises CaptureError.
    """
    if process is None:
        yield
        return
    if not IS_LINUX:
        raise CaptureError("network namespaces are Linux': leave --netns out")
    with OWN.open("rb") as own, _opened(process) as other:
        try:
            _enter(other.fileno())
        except OSError as error:
            raise _refused(process, error) from error
        try:
            yield
        finally:
            _enter(own.fileno())


def _opened(process: int) -> IO[bytes]:
    try:
        return Path(f"/proc/{process}/ns/net").open("rb")
    except OSError as error:
        raise _refused(process, error) from error


def _enter(namespace: int) -> None:
    """Enter a network namespace, by its file; raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _refused(process: int, error: OSError) -> CaptureError:
    """Error with advice."""
    if error.errno in (errno.ENOENT, errno.ESRCH):
        return CaptureError(
            f"--netns {process}: there is no such process; in a container, process ids are the"
            " host's only with hostPID"
        )
    if error.errno in (errno.EPERM, errno.EACCES):
        return CapturePermissionError(
            f"--netns {process}: this user may not enter the network namespace of that process:"
            " start it as root, or with CAP_SYS_ADMIN and CAP_SYS_PTRACE (they are dropped"
            " together with CAP_NET_RAW)"
        )
    return CaptureError(f"--netns {process}: {error.strerror}")
