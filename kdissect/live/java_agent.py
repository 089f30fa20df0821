"""Agents in running JVMs: loaded by `jcmd`, of the JDK that the JVM itself is of, or of the PATH.

The attach mechanism of the JVM accepts its own user alone, so `jcmd` runs as that user.
"""

import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from kdissect.errors import InvalidArgument, KdissectError

ATTACH_S: Final = 30
# What `jcmd` says after an agent was loaded; other answers are its errors.
LOADED: Final = "return code: 0"
SHOWN: Final = 300  # characters of its answer
PROGRAM: Final = "java"


class Jvm(NamedTuple):
    """A running JVM; `title` is its main class or jar."""

    pid: int
    uid: int
    gid: int
    title: str
    program: str

    @classmethod
    def of(cls, pid: int) -> "Jvm":
        """The JVM with this id; raises InvalidArgument where that is none, or out of reach."""
        process = Path("/proc") / str(pid)
        try:
            found = process.stat()
            program = str((process / "exe").readlink())
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            is_elsewhere = namespace_of(process) != namespace_of(Path("/proc/self"))
        except FileNotFoundError as error:
            raise InvalidArgument(f"there is no process {pid}") from error
        except OSError as error:
            raise KdissectError(f"process {pid}: {error.strerror}; run this as its user") from error
        if Path(program).name != PROGRAM:
            raise InvalidArgument(f"process {pid} is {program}, no JVM")
        if is_elsewhere:
            raise KdissectError(
                f"process {pid} has other files than this process, as in a container or a unit"
                f" with PrivateTmp: run this there (nsenter --mount --target {pid} kdissect …),"
                " where the agent and the key log have the same names for both"
            )
        return cls(pid, found.st_uid, found.st_gid, title_of(words), program)

    @property
    def user(self) -> str:
        """Name of the user, or the number."""
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)


def namespace_of(process: Path) -> str:
    """The mount namespace of a process."""
    return str((process / "ns" / "mnt").readlink())


def title_of(words: list[str]) -> str:
    """Main class or jar of a command line.

    >>> title_of(["java", "-Xmx1g", "-cp", "libs", "kafka.Kafka", "server.properties"])
    'kafka.Kafka'
    """
    rest = iter(words[1:])
    for word in rest:
        if word in ("-cp", "-classpath", "--class-path", "-p", "--module-path"):
            next(rest, "")
        elif word == "-jar":
            return next(rest, "")
        elif word and not word.startswith("-"):
            return word
    return PROGRAM


def load_agent(jvm: Jvm, agent: Path, argument: Path) -> None:
    """Load an agent into a JVM, with a path as its argument; raises KdissectError with the reason.

    `jcmd` has no syntax for separators in a path.
    """
    for path in (agent, argument):
        if any(letter in str(path) for letter in " \t\n,=\"'"):
            raise InvalidArgument(f"{path}: a JVM takes no path with blanks, quotes, `,` or `=`")
    command = [jcmd_of(jvm), str(jvm.pid), "JVMTI.agent_load", str(agent), str(argument)]
    is_other = jvm.uid != os.geteuid()
    if is_other and os.geteuid() != 0:
        raise KdissectError(f"process {jvm.pid} is of user {jvm.user}: run this as that user")
    try:
        done = subprocess.run(  # noqa: S603  # words, no shell; checked above
            command,
            capture_output=True,
            check=False,
            timeout=ATTACH_S,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            cwd="/",
            user=jvm.uid if is_other else None,
            group=jvm.gid if is_other else None,
            extra_groups=[] if is_other else None,
        )
    except subprocess.TimeoutExpired as error:
        raise KdissectError(f"process {jvm.pid} does not answer within {ATTACH_S} s") from error
    except OSError as error:
        raise KdissectError(f"{command[0]}: {error.strerror}") from error
    if LOADED not in done.stdout:
        said = " ".join((done.stdout + done.stderr).split())[:SHOWN]
        raise KdissectError(f"process {jvm.pid} did not load the agent: {said}")


def jcmd_of(jvm: Jvm) -> str:
    """The JVM's own `jcmd`, or that of the PATH; raises KdissectError without."""
    own = Path(jvm.program).with_name("jcmd")
    found = str(own) if own.is_file() else shutil.which("jcmd")
    if found is None:
        raise KdissectError(
            f"no jcmd beside {jvm.program} or in the PATH: it is in a JDK, not in a JRE; or start"
            " the JVM with -javaagent:JAR=FILE"
        )
    return found
