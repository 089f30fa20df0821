"""Images for the node: kdissect's, a broker's, and one for pods themselves, in one archive.

The broker is a real one, of Kafka's jars, under the name and the user that a manifest has.
"""

import shutil
from pathlib import Path
from typing import Final

from tools.kubernetes.node import PAUSE, run_long
from tools.record.installs import broker_jars
from tools.record.releases import NEWEST

BROKER: Final = "docker.io/apache/kafka:4.1.0"  # as in sidecar.yaml
KDISSECT: Final = "docker.io/library/kdissect:0.1.0"
BASE: Final = "docker.io/library/debian:trixie-slim"
MODULES: Final = (
    "java.se", "jdk.unsupported", "jdk.crypto.ec", "jdk.management", "jdk.zipfs", "jdk.net",
)  # fmt: skip
CONTAINERFILE: Final = f"""
FROM {BASE}
COPY java /opt/java
COPY libs /opt/kafka/libs
COPY start /opt/kafka/start
USER 1000
ENTRYPOINT ["/bin/sh", "-e", "/opt/kafka/start"]
"""
START: Final = """
address=${ADVERTISED:-$(hostname -i)}
kafka() { exec /opt/java/bin/java -Xmx384m -cp '/opt/kafka/libs/*' "$@"; }
cat > /tmp/server.properties <<END
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093
advertised.listeners=PLAINTEXT://$address:9092
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9093
offsets.topic.replication.factor=1
log.dirs=/tmp/kafka
END
id=J7s9e8PPTGOO47PxzI0u9Q
(kafka kafka.tools.StorageTool format --ignore-formatted -t $id -c /tmp/server.properties)
kafka kafka.Kafka /tmp/server.properties
"""


def archived(engine: str, image: str, java: Path, directory: Path) -> Path:
    """An archive of all images, made with an engine like Docker from kdissect's and a JDK."""
    context = directory / "broker"
    context.mkdir(parents=True)
    link = [java / "bin" / "jlink", "--add-modules", ",".join(MODULES), "--strip-debug"]
    run_long([*map(str, link), "--output", str(context / "java")])
    shutil.copytree(broker_jars(NEWEST), context / "libs")
    (context / "start").write_text(START)
    (context / "Containerfile").write_text(CONTAINERFILE)
    run_long([engine, "build", "--network=none", "--tag", BROKER, str(context)])
    run_long([engine, "tag", image, KDISSECT])
    # What holds a pod's network sleeps.
    pause = f'FROM {BASE}\nENTRYPOINT ["/bin/sleep", "infinity"]\n'
    (context / "Containerfile").write_text(pause)
    run_long([engine, "build", "--network=none", "--tag", PAUSE, str(context)])
    archive = directory / "images.tar"
    images = [KDISSECT, BROKER, PAUSE]
    save = [engine, "save", "--multi-image-archive", "--output", str(archive), *images]
    run_long(save)
    shutil.rmtree(context)
    return archive
