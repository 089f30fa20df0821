"""The unit in docs/, taken apart, and applied without systemd as far as other programs can."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

UNIT = Path(__file__).parents[2] / "docs" / "kdissect-live.service"
# In the range that systemd takes DynamicUser= from; no host knows it by name.
DYNAMIC_USER = 61_234

# By the tests that start the program: by setpriv, `service_manager` and `confined.py`.
APPLIED = {
    "Type", "NotifyAccess", "ExecStart", "ExecReload", "KillSignal", "TimeoutStopSec",
    "SuccessExitStatus",
    "WatchdogSec", "DynamicUser", "AmbientCapabilities", "CapabilityBoundingSet", "NoNewPrivileges",
    "StateDirectory", "StateDirectoryMode",
    "UMask", "Nice", "OOMScoreAdjust", "LimitNOFILE", "LimitCORE",
    "SystemCallFilter", "SystemCallErrorNumber", "SystemCallArchitectures",
    "RestrictAddressFamilies", "MemoryDenyWriteExecute",
}  # fmt: skip
# By systemd alone, see `test_under_systemd_itself`, and why.
NOT_APPLIED = {
    "Restart": "nothing here fails", "RestartSec": "the same",
    "MemoryMax": "a cgroup", "MemorySwapMax": "a cgroup", "CPUQuota": "a cgroup",
    "CPUWeight": "a cgroup", "IOWeight": "a cgroup", "TasksMax": "a cgroup",
    "IPAddressDeny": "BPF in a cgroup", "IPAddressAllow": "BPF in a cgroup",
    "ProtectSystem": "mounts", "ProtectHome": "mounts, and Python may be in /root here",
    "PrivateTmp": "mounts", "PrivateDevices": "mounts", "PrivateMounts": "mounts",
    "ProtectKernelTunables": "mounts", "ProtectKernelModules": "mounts",
    "ProtectKernelLogs": "mounts", "ProtectControlGroups": "mounts", "ProtectProc": "mounts",
    "ProcSubset": "mounts", "ProtectClock": "devices in a cgroup",
    "ProtectHostname": "a namespace; a name is never set",
    "RestrictNamespaces": "SystemCallFilter has no unshare and setns",
    "RestrictRealtime": "SystemCallFilter has no sched_setscheduler",
    "RestrictSUIDSGID": "no such file is ever made", "LockPersonality": "never asked for",
    "RemoveIPC": "after the end", "KeyringMode": "never asked for",
}  # fmt: skip


class Unit(NamedTuple):
    """The directives of [Service], each with its values in order."""

    directives: dict[str, list[str]]

    def value(self, name: str) -> str:
        (value,) = self.directives[name]
        return value

    def words(self, name: str) -> list[str]:
        return shlex.split(self.value(name))

    def seconds(self, name: str) -> float:
        found = re.fullmatch(r"(\d+)s", self.value(name))
        assert found, name
        return float(found[1])


def parse_unit(text: str) -> Unit:
    """As in systemd.syntax(7): after a backslash at its end, a line continues on the next one."""
    directives: dict[str, list[str]] = {}
    section = ""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif section == "Service" and line and line[0] not in "#;":
            name, _, value = line.partition("=")
            directives.setdefault(name, []).append(value)
    return Unit(directives)


def shipped_unit() -> Unit:
    return parse_unit(UNIT.read_text())


def setpriv_words(unit: Unit) -> list[str]:
    """Command that starts a program with the unit's user and capabilities."""
    wanted = unit.words("AmbientCapabilities")
    bounding = unit.words("CapabilityBoundingSet")
    assert unit.value("DynamicUser") == unit.value("NoNewPrivileges") == "yes"
    user = ["--reuid", str(DYNAMIC_USER), "--regid", str(DYNAMIC_USER), "--clear-groups"]
    return [
        *needed("setpriv"), *user, "--no-new-privs",
        "--inh-caps", capability_list(wanted), "--ambient-caps", capability_list(wanted),
        "--bounding-set", capability_list(bounding),
    ]  # fmt: skip


def capability_list(names: list[str]) -> str:
    return ",".join(["-all", *(f"+{name.removeprefix('CAP_').lower()}" for name in names)])


def needed(program: str) -> list[str]:
    """The program, or a reason why the test is skipped."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs {program}")
    return [found]


def allowed_calls(unit: Unit) -> list[str]:
    """System calls allowed by SystemCallFilter=, with systemd's own groups."""
    asked = [*needed("systemd-analyze"), "syscall-filter"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60)
    groups: dict[str, list[str]] = {}
    members: list[str] = []
    for line in done.stdout.splitlines():
        word = line.strip()
        if line.startswith("@"):
            members = groups.setdefault(word, [])
        elif word and word[0] != "#":
            members.append(word)
    # Allowed in any case, according to systemd.exec(5).
    allowed = _members(["@default"], groups)
    for value in unit.directives["SystemCallFilter"]:
        found = _members(value.removeprefix("~").split(), groups)
        allowed = allowed - found if value.startswith("~") else allowed | found
    return sorted(allowed)


def _members(names: list[str], groups: dict[str, list[str]]) -> set[str]:
    found: set[str] = set()
    for name in names:
        found |= _members(groups[name], groups) if name.startswith("@") else {name}
    return found
