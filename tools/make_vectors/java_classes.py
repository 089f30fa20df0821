"""Vectors written by Kafka's own generated classes, of the releases that had them.

``java/Vectors.java`` fills the classes and writes them; here its values are compared with what
kdissect reads, to find which layout of the schema a class has: the newest or a variant. The newest
release that has a layout gives its vectors; those of all other releases are only compared.
"""

import base64
import itertools
import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kdissect.errors import DecodeError
from kdissect.protocol.layouts import build_reader
from kdissect.protocol.specs import MessageSpec
from tools.make_vectors.layouts import specs_by_name
from tools.make_vectors.vectors_file import Vector
from tools.record.installs import Artifact, _fetch_jars, cache_directory

SOURCES = Path(__file__).parent / "java"
VECTORS_PER_LAYOUT = 10
TIMEOUT_SECONDS = 300
JACKSON = Artifact("com.fasterxml.jackson.core", "jackson-databind", "2.21.2")
SINCE_4 = ("metadata", "group-coordinator", "transaction-coordinator", "share-coordinator",
           "storage", "raft")  # fmt: skip
# Newest first. Each brings layouts that no newer one has: see the variants of the schema.
RELEASES: dict[str, tuple[str, ...]] = {
    "4.4.0": ("clients", *SINCE_4),
    "4.3.1": ("clients", "streams", "runtime", "mirror"),
    "4.1.2": ("clients", *SINCE_4),
    "4.0.1": ("clients", *SINCE_4),
    "3.9.1": ("clients", "streams", "metadata", "group-coordinator", "share-coordinator",
              "storage", "raft", "server"),
    "3.7.2": ("clients", "group-coordinator"),
    "3.6.2": ("clients", "group-coordinator"),
    "3.5.2": ("clients", "group-coordinator", "storage", "metadata"),
    "3.4.1": ("clients", "metadata"),
    "3.2.3": ("clients", "metadata"),
    "3.0.2": ("clients", "metadata", "storage"),
    "2.8.2": ("clients", "metadata", "raft"),
    "2.7.2": ("clients", "raft"),
    "0.8.2.2": ("clients",),
    "0.8.2-beta": ("clients",),
}  # fmt: skip
CONSUMER = "org.apache.kafka.clients.consumer."
CONNECT = "org.apache.kafka.connect.runtime.distributed."
MIRROR = "org.apache.kafka.connect.mirror."
PROTOCOL = "org.apache.kafka.common.protocol.Protocol#"
ALLOCATION = f"{CONNECT}IncrementalCooperativeConnectProtocol#"
SUBSCRIPTION = f"{ALLOCATION}CONFIG_STATE_V1+{ALLOCATION}ALLOCATION_V1"
# Schemas that are written by hand: release → name, version, places.
HAND_WRITTEN = {
    "4.3.1": (
        f"ConnectSubscription:0:{CONNECT}ConnectProtocol#CONFIG_STATE_V0",
        f"ConnectSubscription:1:{SUBSCRIPTION}",
        f"ConnectSubscription:2:{SUBSCRIPTION}",
        f"ConnectAssignment:0:{CONNECT}ConnectProtocol#ASSIGNMENT_V0",
        f"ConnectAssignment:1:{ALLOCATION}ASSIGNMENT_V1",
        f"ConnectAssignment:2:{ALLOCATION}ASSIGNMENT_V1",
        f"MirrorCheckpointKey:0:{MIRROR}Checkpoint#KEY_SCHEMA",
        f"MirrorCheckpointValue:0:{MIRROR}Checkpoint#VALUE_SCHEMA_V0",
        f"MirrorHeartbeatKey:0:{MIRROR}Heartbeat#KEY_SCHEMA",
        f"MirrorHeartbeatValue:0:{MIRROR}Heartbeat#VALUE_SCHEMA_V0",
        f"MirrorOffsetSyncKey:0:{MIRROR}OffsetSync#KEY_SCHEMA",
        f"MirrorOffsetSyncValue:0:{MIRROR}OffsetSync#VALUE_SCHEMA",
        f"StickyAssignorUserData:0:{CONSUMER}StickyAssignor#STICKY_ASSIGNOR_USER_DATA_V0",
        f"StickyAssignorUserData:1:{CONSUMER}StickyAssignor#STICKY_ASSIGNOR_USER_DATA_V1",
        f"CooperativeStickyAssignorUserData:0:{CONSUMER}CooperativeStickyAssignor"
        "#COOPERATIVE_STICKY_ASSIGNOR_USER_DATA_V0",
    ),
    "3.9.1": (
        "ControlRecordKey:0:org.apache.kafka.common.record.ControlRecordType"
        "#CONTROL_RECORD_KEY_SCHEMA_VERSION_V0",
    ),
    "0.8.2.2": (
        f"JoinGroupRequest:0:{PROTOCOL}JOIN_GROUP_REQUEST_V0",
        f"JoinGroupResponse:0:{PROTOCOL}JOIN_GROUP_RESPONSE_V0",
    ),
    "0.8.2-beta": (f"OffsetCommitRequest:0:{PROTOCOL}OFFSET_COMMIT_REQUEST_V0",),
}
# Artifacts with other names than kafka-something.
NAMES = {"runtime": "connect-runtime", "mirror": "connect-mirror"}


class Written(NamedTuple):
    """A message as a release's class wrote it."""

    name: str
    version: int
    raw: str
    values: dict[str, Any]


def java_vectors() -> Iterator[Vector]:
    """The vectors of every layout that a class of some release has."""
    specs = specs_by_name()
    known: set[tuple[str, int, str]] = set()
    for release in RELEASES:
        counted = 0
        for (name, version), written in itertools.groupby(
            written_by(release), key=lambda message: (message.name, message.version)
        ):
            messages = list(written)
            counted += len(messages)
            if name not in specs:
                print(f"{release}: {name} v{version} is not in the schema")
                continue
            vectors = vectors_of(release, specs[name], messages)
            if vectors[0].layout not in known:
                known.add(vectors[0].layout)
                yield from vectors
        print(f"{release}: {counted} messages compared")


def written_by(release: str) -> Iterator[Written]:
    """Vectors written by the classes of a release; names without ``Data``, as in the schema."""
    jars = _fetch_jars(f"vectors-{release}", artifacts(release))
    classes = cache_directory() / f"vectors-{release}"
    class_path = f"{classes}{os.pathsep}{jars}/*"
    commands = []
    if not release.startswith("0."):
        commands.append(["Vectors", *(str(path) for path in sorted(jars.glob("kafka*.jar")))])
    if release in HAND_WRITTEN:
        commands.append(["Structs", *HAND_WRITTEN[release]])
    for program, *arguments in commands:
        run(["javac", "-nowarn", "-cp", class_path, "-sourcepath", str(SOURCES)]
            + ["-d", str(classes), str(SOURCES / f"{program}.java")])  # fmt: skip
        command = ["java", "-cp", class_path, program, str(VECTORS_PER_LAYOUT), *arguments]
        for line in run(command).splitlines():
            name, version, raw, values = json.loads(line)
            yield Written(upstream_name(name), version, raw, values)


def artifacts(release: str) -> list[Artifact]:
    """Jars with a release's classes and their dependencies."""
    names = [NAMES.get(each, f"kafka-{each}") for each in RELEASES[release]]
    return [Artifact("org.apache.kafka", name, release) for name in names] + [JACKSON]


def run(command: list[str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    errors = [line for line in done.stderr.splitlines() if not line.startswith("SLF4J")]
    print(*errors, sep="\n", end="")
    done.check_returncode()
    return done.stdout


def upstream_name(class_name: str) -> str:
    """The message's name: classes of APIs have ``Data`` behind it."""
    ours = ("UserData", "PrincipalData", "StateData", "InfoData")
    return class_name if class_name.endswith(ours) else class_name.removesuffix("Data")


def vectors_of(release: str, specs: list[MessageSpec], written: list[Written]) -> list[Vector]:
    """The messages of one class and version as vectors of the layout that reads them all."""
    version = written[0].version
    if written[0].name.endswith("Key") and version not in specs[0].versions:
        # Until 4.0 the class of a coordinator's key had the type's number as its version.
        version = min(specs[0].versions)
    for spec in specs:
        if version in spec.versions:
            values = [read_alike(spec, version, message) for message in written]
            if None not in values:
                releases = " ".join(spec.releases)
                return [
                    Vector(f"kafka {release}", specs[0].name, version, releases, message.raw, value)
                    for message, value in zip(written, values, strict=True)
                    if value is not None
                ]
    raise ValueError(f"no layout of {written[0].name} v{version} is that of {release}")


def read_alike(spec: MessageSpec, version: int, written: Written) -> dict[str, Any] | None:
    """The values as written, by kdissect's names; None when kdissect reads others."""
    raw = base64.b64decode(written.raw)
    try:
        read, end = build_reader(spec, version).read(raw, 0)
    except DecodeError:
        return None
    assert isinstance(read, dict)
    alike = renamed(written.values, read) if end == len(raw) else None
    same = json.dumps(alike) == json.dumps(comparable(read))
    return alike if same else None


def comparable(value: Any) -> Any:
    """A value as the vectors have it."""
    if isinstance(value, bytes):
        return f"hex:{value.hex()}"
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, dict):
        return {str(name): comparable(item) for name, item in value.items()}
    return value


def renamed(written: Any, read: Any) -> Any:
    """`written` with the names that `read` has at the same places, for fields were renamed."""
    if isinstance(written, dict) and isinstance(read, dict):
        pairs: Iterable[tuple[Any, Any]] = zip(written.values(), read.items(), strict=False)
        if len(written) == len(read):
            return {str(name): renamed(value, item) for value, (name, item) in pairs}
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        return [renamed(value, item) for value, item in zip(written, read, strict=True)]
    return written
