"""A program of its own: confines itself as systemd confines a service, and becomes another program.

    python confined.py '{"UMask": "0027", ...}' PROGRAM ARGUMENT...

It is run by the service's user, who may take from what it has. Filters of system calls are made by
libseccomp, as systemd makes them. It imports nothing of kdissect, nor pytest.
"""

import ctypes
import json
import os
import resource
import sys
from ctypes.util import find_library

ALLOW = 0x7FFF0000
ERRNO = 0x00050000
EPERM = 1
EAFNOSUPPORT = 97
NOT_EQUAL, MASKED_EQUAL = 1, 7
PROT_WRITE, PROT_EXEC, SHM_EXEC = 2, 4, 0o100000
# Known address families, and numbers beyond them.
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16, "AF_PACKET": 17}
MANY_FAMILIES = 64
ATTRIBUTE_NO_NEW_PRIVS = 3


class Compared(ctypes.Structure):
    """struct scmp_arg_cmp of <seccomp.h>."""

    _fields_ = [
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("one", ctypes.c_uint64),
        ("other", ctypes.c_uint64),
    ]


class Filter:
    """A filter of system calls; `default` applies without a rule."""

    def __init__(self, default: int) -> None:
        name = find_library("seccomp")
        self._library = ctypes.CDLL(name, use_errno=True)
        self._library.seccomp_init.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(self._library.seccomp_init(default))
        # Options that do not exist cannot be set by it.
        self._done(self._library.seccomp_attr_set(self._context, ATTRIBUTE_NO_NEW_PRIVS, 0))

    def add(self, name: str, action: int, *compared: tuple[int, int, int, int]) -> None:
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            return  # of another architecture
        array = (Compared * len(compared))(*compared)
        self._done(
            self._library.seccomp_rule_add_array(
                self._context, action, number, len(compared), array
            )
        )

    def load(self) -> None:
        self._done(self._library.seccomp_load(self._context))

    def _done(self, code: int) -> None:
        if code:
            raise OSError(-code, os.strerror(-code))


def confine(asked: dict[str, str | list[str]]) -> None:
    os.umask(int(str(asked["UMask"]), 8))
    os.nice(int(str(asked["Nice"])))
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(str(asked["OOMScoreAdjust"]))
    for limit in ("NOFILE", "CORE"):
        value = int(str(asked[f"Limit{limit}"]))
        resource.setrlimit(getattr(resource, f"RLIMIT_{limit}"), (value, value))
    if "calls" in asked:
        filter_memory()
        filter_families(list(asked["families"]))
        filter_calls(list(asked["calls"]))


def filter_calls(allowed: list[str]) -> None:
    made = Filter(ERRNO | EPERM)
    for name in allowed:
        made.add(name, ALLOW)
    made.load()


def filter_families(allowed: list[str]) -> None:
    """RestrictAddressFamilies="""
    made = Filter(ALLOW)
    numbers = {FAMILIES[name] for name in allowed}
    for family in set(range(MANY_FAMILIES)) - numbers:
        made.add("socket", ERRNO | EAFNOSUPPORT, (0, MASKED_EQUAL, 0xFFFFFFFF, family))
    made.load()


def filter_memory() -> None:
    """MemoryDenyWriteExecute="""
    made = Filter(ALLOW)
    both = PROT_WRITE | PROT_EXEC
    made.add("mmap", ERRNO | EPERM, (2, MASKED_EQUAL, both, both))
    made.add("mprotect", ERRNO | EPERM, (2, MASKED_EQUAL, PROT_EXEC, PROT_EXEC))
    made.add("pkey_mprotect", ERRNO | EPERM, (2, MASKED_EQUAL, PROT_EXEC, PROT_EXEC))
    made.add("shmat", ERRNO | EPERM, (2, MASKED_EQUAL, SHM_EXEC, SHM_EXEC))
    made.load()


if __name__ == "__main__":
    confine(json.loads(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606  # what the test asks for
