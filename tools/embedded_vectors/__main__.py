"""Writes tests/messages/embedded_vectors.txt and message_vectors.jsonl: what Kafka's code makes.

The first are hand-written serializers over fixed values (consumers, Connect, Streams, MirrorMaker),
the second generated ones over random values (records of Kafka's own topics, control records). Needs
a JDK, Maven and its central repository; run ``python -m tools.embedded_vectors``.
"""

import subprocess
import tempfile
from pathlib import Path

from tools.record.installs import JACKSON_VERSION, POM, Artifact

NEWEST = "4.3.1"
SOURCES = Path(__file__).parent
VECTORS = Path(__file__).parents[2] / "tests" / "messages"
SAMPLES = "2"

GROUP = "org.apache.kafka.coordinator.group.generated"
SHARE = "org.apache.kafka.coordinator.share.generated"
TRANSACTION = "org.apache.kafka.coordinator.transaction.generated"
METADATA = "org.apache.kafka.common.metadata"
STORAGE = "org.apache.kafka.server.log.remote.metadata.storage.generated"
CLIENTS = "org.apache.kafka.common.message"
# Releases, their artifacts, and packages or messages in them: the newest has all, older ones those
# that were other under the same version.
RELEASES = (
    ("2.8.2", ("kafka-clients", "kafka-metadata"), (METADATA, f"{CLIENTS}.LeaderChangeMessage")),
    ("3.2.3", ("kafka-metadata",), tuple(
        f"{METADATA}.{name}"
        for name in ("DelegationTokenRecord", "FeatureLevelRecord", "UserScramCredentialRecord")
    )),
    ("3.5.2", ("kafka-group-coordinator", "kafka-storage"), (
        STORAGE,
        f"{GROUP}.ConsumerGroupCurrentMemberAssignmentValue",
        f"{GROUP}.ConsumerGroupMemberMetadataValue",
        f"{GROUP}.ConsumerGroupPartitionMetadataValue",
        f"{GROUP}.ConsumerGroupTargetAssignmentMemberValue",
    )),
    ("3.7.2", ("kafka-group-coordinator",), (
        f"{GROUP}.ConsumerGroupCurrentMemberAssignmentValue",
        f"{GROUP}.ConsumerGroupMemberMetadataValue",
        f"{GROUP}.ConsumerGroupPartitionMetadataValue",
        f"{GROUP}.ConsumerGroupTargetAssignmentMemberValue",
    )),
    ("3.9.1", ("kafka-group-coordinator",), (
        f"{GROUP}.ShareGroupMetadataValue",
        f"{GROUP}.ShareGroupPartitionMetadataKey",
        f"{GROUP}.ShareGroupPartitionMetadataValue",
    )),
    ("4.0.1", ("kafka-group-coordinator", "kafka-share-coordinator"), (
        SHARE,
        f"{GROUP}.ShareGroupMetadataValue",
        f"{GROUP}.ShareGroupStatePartitionMetadataValue",
    )),
    (NEWEST, (
        "kafka-clients", "kafka-group-coordinator", "kafka-metadata", "kafka-share-coordinator",
        "kafka-storage", "kafka-transaction-coordinator",
    ), (
        GROUP, SHARE, TRANSACTION, METADATA, STORAGE,
        *(f"{CLIENTS}.{name}" for name in (
            "DefaultPrincipalData", "EndTxnMarker", "KRaftVersionRecord", "LeaderChangeMessage",
            "SnapshotFooterRecord", "SnapshotHeaderRecord", "VotersRecord",
        )),
    )),
)  # fmt: skip
SERIALIZERS = ("connect-mirror", "connect-runtime", "kafka-streams")


def main() -> None:
    fixed = run_java("EmbeddedVectors", NEWEST, SERIALIZERS, ())
    write("embedded_vectors.txt", fixed)
    made = [
        run_java("MessageVectors", release, artifacts, (release, SAMPLES, *packages))
        for release, artifacts, packages in RELEASES
    ]
    write("message_vectors.jsonl", b"".join(made))


def run_java(
    program: str, release: str, artifacts: tuple[str, ...], arguments: tuple[str, ...]
) -> bytes:
    """Output of a program in this directory, run with the jars of a Kafka release."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        wanted = [Artifact("org.apache.kafka", artifact, release) for artifact in artifacts]
        wanted.append(Artifact("com.fasterxml.jackson.core", "jackson-databind", JACKSON_VERSION))
        pom = POM.format(dependencies="".join(artifact.to_xml() for artifact in wanted))
        (directory / "pom.xml").write_text(pom)
        copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
        subprocess.run(copy, cwd=directory, check=True)
        jars = ":".join(map(str, sorted((directory / "lib").glob("*.jar"))))
        source = str(SOURCES / f"{program}.java")
        subprocess.run(["javac", "-cp", jars, "-d", name, source], check=True)
        java = ["java", "-cp", f"{name}:{jars}", program, *arguments]
        return subprocess.run(java, check=True, capture_output=True).stdout


def write(name: str, vectors: bytes) -> None:
    (VECTORS / name).write_bytes(vectors)
    print(f"{name}: {len(vectors.splitlines())} vectors, {len(vectors)} bytes")


main()
