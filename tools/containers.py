"""Runs the image in a container engine as deploy/kubernetes has it, beside a broker that talks.

    python -m tools.containers [--engine podman] [--image localhost/kdissect:0.1.0]

As root. User, capabilities, limits, commands and volumes are those of the manifests; the engine
replaces Kubernetes; what Kubernetes itself does (native sidecars, scheduling) is shown by
tools/kubernetes.
Containers and volumes are removed at the end. Prints a line for each check that passes, and exits
with an error at the first that fails.
"""

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tools.manifests import debug_command, spec_of

ROOT: Final = Path(__file__).parents[1]
PYTHON: Final = "/opt/kdissect/bin/python3"
TABLES: Final = "/var/lib/kdissect"
PATIENCE_S: Final = 60.0
PREFIX: Final = "kdissect-check-"  # of the names of containers and volumes
LOOK_S: Final = 0.5  # an engine has no event to wait for
REPORTED: Final = re.compile(r"(\d+) packets of \S+, 0 dropped: (\d+) exchanges")
# ApiVersions of version 0, asked and answered, over the loopback of the container's network, on a
# new connection each second. Its argument is the one that broker-of-node.yaml looks for.
BROKER: Final = """
import itertools, socket, struct, time
server = socket.create_server(("127.0.0.1", 9092))
for number in itertools.count():
    if number % 200 == 0:
        client = socket.create_connection(("127.0.0.1", 9092))
        broker, _ = server.accept()
    client.sendall(struct.pack(">ihhih", 10, 18, 0, number, -1))
    broker.recv(100)
    broker.sendall(struct.pack(">iihihhh", 16, number, 0, 1, 18, 0, 3))
    client.recv(100)
    time.sleep(0.005)  # 200 a second
"""


class Engine(NamedTuple):
    """A program like Docker's, and the image that it runs."""

    program: str
    image: str

    def __call__(self, *words: str, fails: bool = False) -> str:
        """What a command prints; SystemExit if it fails, or does not though it should."""
        done = subprocess.run(
            [self.program, *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
        if (done.returncode != 0) != fails:
            sys.exit(f"{self.program} {' '.join(words)}\n{done.stdout}{done.returncode}")
        return done.stdout

    def run(self, *options: str, words: list[str], fails: bool = False) -> str:
        """Run the image until it ends; the first word is the program."""
        entry = ["--entrypoint", words[0]]
        return self("run", "--rm", *options, *entry, self.image, *words[1:], fails=fails)

    @contextmanager
    def started(self, role: str, *options: str, words: list[str]) -> Iterator[str]:
        """The name of a container that runs; it is removed afterwards."""
        name = PREFIX + role
        entry = ["--entrypoint", words[0]]
        self("run", "-d", "--name", name, *options, *entry, self.image, *words[1:])
        try:
            yield name
        finally:
            self("rm", "-f", name)

    def broker(self, network: str) -> AbstractContextManager[str]:
        """A container with a broker and its client in a network."""
        words = [PYTHON, "-c", BROKER, "kafka.Kafka"]
        return self.started("broker", "--network", network, words=words)

    @contextmanager
    def volume(self) -> Iterator[str]:
        """The name of a volume."""
        name = f"{PREFIX}tables"
        self("volume", "create", name)
        try:
            yield name
        finally:
            self("volume", "rm", "-f", name)


def rights(container: dict[str, Any], volume: str = "") -> list[str]:
    """An engine's options for the security context, limits and volumes of a container."""
    context = container["securityContext"]
    user = context["runAsUser"]
    options = ["--user", f"{user}:{context.get('runAsGroup', user)}"]
    options += ["--read-only"] if context.get("readOnlyRootFilesystem") else []
    for what in ("drop", "add"):
        options += [f"--cap-{what}={one}" for one in context["capabilities"].get(what, [])]
    if not context["allowPrivilegeEscalation"]:
        options.append("--security-opt=no-new-privileges")
    limits = container.get("resources", {}).get("limits")
    if limits:
        cores = int(limits["cpu"].removesuffix("m")) / 1000
        options += [f"--cpus={cores}", f"--memory={limits['memory'].removesuffix('i').lower()}"]
    for one in container.get("volumeMounts", []):
        is_scratch = one["name"] == "scratch"
        options.append(f"--tmpfs={one['mountPath']}" if is_scratch else f"-v={volume}:{TABLES}")
    return options


def words_of(container: dict[str, Any], **replaced: str) -> list[str]:
    """Command and arguments, with other values of some options."""
    words = [*container["command"], *container.get("args", [])]
    for name, value in replaced.items():
        words = [f"--{name}={value}" if one.startswith(f"--{name}=") else one for one in words]
    return words


def rows_in(engine: Engine, volume: str) -> int:
    """Number of exchanges in the tables of a volume, according to the image itself."""
    options = ("--read-only", "--cap-drop=ALL", "--network=none", "--tmpfs=/tmp")
    words = ["kdissect", "table", "exchanges", f"{TABLES}/tables", "--format", "jsonl"]
    said = engine.run(*options, f"-v={volume}:{TABLES}:ro", words=words)
    return sum(line.startswith("{") for line in said.splitlines())


def wait_until(is_so: Callable[[], object], what: str, seconds: float = PATIENCE_S) -> None:
    """Look again and again; SystemExit if it does not come to be."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"not within {seconds:.0f} s: {what}")
        time.sleep(LOOK_S)


def captured(engine: Engine, name: str) -> None:
    """Wait until a container has flushed rows."""
    look = f"find {TABLES} -name exchanges.spool -size +1"

    def has_rows() -> bool:
        return "exchanges" in engine("exec", name, "/bin/sh", "-c", look)

    wait_until(has_rows, f"rows of {name}")


def stopped(engine: Engine, name: str) -> int:
    """Stop a capturing container; return the exchanges that it reports, with no packet dropped."""
    engine("stop", "-t", "30", name)
    said = engine("logs", name)
    code = engine("inspect", "--format", "{{.State.ExitCode}}", name).strip()
    if code != "0":
        sys.exit(f"{name} ended with {code}: {said}")
    return reported(said)


def reported(said: str) -> int:
    """The exchanges that a capture reports at its end; SystemExit if none, or packets dropped."""
    found = REPORTED.findall(said)
    if not found or not int(found[-1][1]):
        sys.exit(f"no exchanges: {said}")
    return int(found[-1][1])


def agreed(rows: int, exchanges: int) -> str:
    """Both numbers, which have to be the same."""
    if rows != exchanges:
        sys.exit(f"{rows} rows, {exchanges} exchanges were reported")
    return f"{rows} exchanges, all in the tables"


def files(engine: Engine) -> str:
    """Captures are read without any rights."""
    options = ("--read-only", "--cap-drop=ALL", "--network=none")
    captures = f"-v={ROOT / 'captures'}:/captures:ro"
    version = engine.run(*options, words=["kdissect", "--version"])
    summary = engine.run(*options, captures, words=["kdissect", "quickstart.pcapng"])
    if "(compiled)" not in version or "Findings" not in summary:
        sys.exit(version + summary)
    return version.strip()


def refused(engine: Engine) -> str:
    """Without NET_RAW there is no live capture."""
    options = ("--read-only", "--cap-drop=ALL", "--network=none")
    words = ["kdissect-live", "-i", "lo", "--duration", "1s"]
    return engine.run(*options, words=words, fails=True).splitlines()[0]


def ephemeral(engine: Engine) -> str:
    """debug.yaml, in the network of a broker."""
    container = spec_of("debug.yaml")
    _, _, words = " ".join(debug_command()[:-1]).partition(" -- ")
    with engine.broker("none") as broker:
        said = engine.run(
            *rights(container), f"--network=container:{broker}", words=[*words.split(), "4s"]
        )
    return f"{reported(said)} exchanges"


def sidecar(engine: Engine) -> str:
    """sidecar.yaml: in the network of a broker, with a volume that is its own (`fsGroup`)."""
    spec = spec_of("sidecar.yaml")
    (container,) = spec["initContainers"]
    owner = f"65532:{spec['securityContext']['fsGroup']}"
    with engine.volume() as volume, engine.broker("none") as broker:
        engine.run("--user=0", f"-v={volume}:{TABLES}", words=["/bin/chown", owner, TABLES])
        options = (*rights(container, volume), f"--network=container:{broker}")
        with engine.started("sidecar", *options, words=words_of(container)) as name:
            captured(engine, name)
            exchanges = stopped(engine, name)
        return agreed(rows_in(engine, volume), exchanges)


def daemon_set(engine: Engine) -> str:
    """daemonset.yaml: its init container, then itself, killed once and started again."""
    spec = spec_of("daemonset.yaml")
    (directory,), (container,) = spec["initContainers"], spec["containers"]
    words = words_of(container, interface="lo")
    with engine.volume() as volume, engine.broker("host"):
        engine.run(*rights(directory, volume), words=words_of(directory))
        options = (*rights(container, volume), "--network=host")
        with engine.started("node", *options, words=words) as name:
            captured(engine, name)
            engine("kill", "--signal=KILL", name)
            engine("start", name)
            wait_until(lambda: "is taken up" in engine("logs", name), "recovery")
            recovered = rows_in(engine, volume)
            captured(engine, name)
            exchanges = stopped(engine, name)
        if not recovered:
            sys.exit("nothing of the one that was killed was recovered")
        both = agreed(rows_in(engine, volume), recovered + exchanges)
        return f"{both}, {recovered} of them recovered after SIGKILL"


def broker_of_node(engine: Engine) -> str:
    """broker-of-node.yaml: root for a moment, in the network of another container's process."""
    (container,) = spec_of("broker-of-node.yaml")["containers"]
    with engine.volume() as volume, engine.broker("none"):
        options = (*rights(container, volume), "--pid=host", "--network=none")
        with engine.started("broker-of-node", *options, words=words_of(container)) as name:
            captured(engine, name)
            exchanges = stopped(engine, name)
        return agreed(rows_in(engine, volume), exchanges)


CHECKS: Final = (files, refused, ephemeral, sidecar, daemon_set, broker_of_node)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--engine", default="podman")
    parser.add_argument("--image", default="localhost/kdissect:0.1.0")
    options = parser.parse_args()
    engine = Engine(options.engine, options.image)
    for check in CHECKS:
        print(f"{check.__name__}: {check(engine)}", flush=True)


if __name__ == "__main__":
    main()
