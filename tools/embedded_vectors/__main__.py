"""Writes tests/messages/embedded_vectors.txt: what Kafka's serializers make of fixed values.

Needs a JDK, Maven and its central repository; run ``python -m tools.embedded_vectors``.
"""

import subprocess
import tempfile
from pathlib import Path

from tools.record.installs import POM, Artifact

KAFKA = "4.3.1"
ARTIFACTS = ("connect-mirror", "connect-runtime", "kafka-streams")
SOURCE = Path(__file__).parent / "EmbeddedVectors.java"
VECTORS = Path(__file__).parents[2] / "tests" / "messages" / "embedded_vectors.txt"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        artifacts = [Artifact("org.apache.kafka", part, KAFKA) for part in ARTIFACTS]
        pom = POM.format(dependencies="".join(artifact.to_xml() for artifact in artifacts))
        (directory / "pom.xml").write_text(pom)
        copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
        subprocess.run(copy, cwd=directory, check=True)
        class_path = f"{directory}:{directory}/lib/*"
        subprocess.run(["javac", "-cp", class_path, "-d", name, str(SOURCE)], check=True)
        made = subprocess.run(
            ["java", "-cp", class_path, "EmbeddedVectors"], check=True, capture_output=True
        )
    VECTORS.write_bytes(made.stdout)
    print(f"{VECTORS.name}: {len(made.stdout.splitlines())} vectors of Kafka {KAFKA}")


main()
