"""Images for the node: kdissect's, a broker's, Spark's, and one for pods themselves.

The broker is a real one, of Kafka's jars, under the name and the user that a manifest has. Spark is
the PySpark of the environment, on kdissect's image, under the name that docs/spark.md has.
"""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.kubernetes.node import PAUSE
from tools.namespaces import run
from tools.record.installs import broker_jars
from tools.record.releases import NEWEST

KDISSECT: Final = "docker.io/library/kdissect:0.1.0"
BROKER: Final = "docker.io/apache/kafka:4.1.0"  # as in sidecar.yaml
SPARK: Final = "docker.io/registry/kdissect-spark:latest"  # as in docs/spark.md
BASE: Final = "docker.io/library/debian:trixie-slim"
PYTHON: Final = "3.13"  # of kdissect's image
PACKAGES: Final = f"/opt/kdissect/lib/python{PYTHON}/site-packages"
# What an image of kdissect lacks of its extra `spark`; PySpark itself is copied.
IMAGE_S: Final = 600.0  # as Spark is large
NEEDED: Final = ("pandas>=2.2,<3", "deltalake>=1.6.6", "arro3-core", "deprecated", "wrapt", "pytz")
OF_PAUSE: Final = f'FROM {BASE}\nENTRYPOINT ["/bin/sleep", "infinity"]\n'
OF_BROKER: Final = f"""
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
OF_SPARK: Final = f"""
FROM {KDISSECT}
USER 0
COPY java /opt/java
COPY packages {PACKAGES}
RUN ln -s {PACKAGES}/pyspark /opt/spark && mkdir -m 777 /opt/spark/work-dir
COPY entrypoint.sh /opt/entrypoint.sh
ENV SPARK_HOME=/opt/spark JAVA_HOME=/opt/java PYSPARK_PYTHON=/opt/kdissect/bin/python3
WORKDIR /opt/spark/work-dir
USER 65532:65532
ENTRYPOINT ["/bin/sh", "/opt/entrypoint.sh"]
"""
# What Spark expects of an image: it runs a driver, or an executor.
ENTRYPOINT: Final = """
set -e
role=$1
shift
if [ "$role" = driver ]; then
    exec /opt/spark/bin/spark-submit --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \\
        --deploy-mode client "$@"
fi
env | sed -n 's/^SPARK_JAVA_OPT_[0-9]*=//p' > /tmp/options
set --
while IFS= read -r option; do set -- "$@" "$option"; done < /tmp/options
exec /opt/java/bin/java "$@" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "/opt/spark/conf:/opt/spark/jars/*" \\
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \\
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \\
    --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \\
    --hostname "$SPARK_EXECUTOR_POD_IP" --podName "$SPARK_EXECUTOR_POD_NAME" \\
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID"
"""


def archived(engine: str, image: str, java: Path, directory: Path) -> Path:
    """An archive of all images, made with an engine like Docker from kdissect's and a JDK 17."""
    context = directory / "images"
    context.mkdir(parents=True)
    link = [java / "bin" / "jlink", "--add-modules", "ALL-MODULE-PATH", "--strip-debug"]
    run([*map(str, link), "--output", str(context / "java")], IMAGE_S)
    shutil.copytree(broker_jars(NEWEST), context / "libs")
    (context / "start").write_text(START)
    (context / "entrypoint.sh").write_text(ENTRYPOINT)
    packages(context / "packages")
    run([engine, "tag", image, KDISSECT])
    for name, steps in ((PAUSE, OF_PAUSE), (BROKER, OF_BROKER), (SPARK, OF_SPARK)):
        (context / "Containerfile").write_text(steps)
        build = [engine, "build", "--network=none", "--tag", name, str(context)]
        run(build, IMAGE_S)
    archive = directory / "images.tar"
    save = [engine, "save", "--multi-image-archive", "--output", str(archive)]
    run([*save, KDISSECT, BROKER, PAUSE, SPARK], IMAGE_S)
    shutil.rmtree(context)
    return archive


def packages(directory: Path) -> None:
    """PySpark of this environment, and what else kdissect needs for Spark."""
    for name in ("pyspark", "py4j"):
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.origin is not None
        leave = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(found.origin).parent, directory / name, ignore=leave)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in (17, 28)]
    kinds = ["--only-binary=:all:", f"--python-version={PYTHON}", "--implementation=cp"]
    kinds += [f"--abi={abi}" for abi in (f"cp{PYTHON.replace('.', '')}", "abi3", "none")]
    subprocess.run(
        [*pip, str(directory), *platforms, "--platform=manylinux2014_x86_64", *kinds, *NEEDED],
        check=True,
    )
