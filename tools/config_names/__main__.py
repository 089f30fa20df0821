"""``python -m tools.config_names``: rewrites kdissect/protocol/schema/configs.tsv."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kdissect.protocol.notation import SCHEMA_DIRECTORY
from tools.record.installs import Artifact, _compile, _fetch_jars

# A patch release of each, oldest first: they do not change configs.
RELEASES = (
    "0.10.2.2", "0.11.0.3", "1.0.2", "1.1.1", "2.0.1", "2.1.1", "2.2.2", "2.3.1", "2.4.1", "2.5.1",
    "2.6.3", "2.7.2", "2.8.2", "3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2",
    "3.7.2", "3.8.1", "3.9.1", "4.0.0", "4.1.2", "4.2.1", "4.3.1", "4.4.0",
)  # fmt: skip
# Its Connect was not to be had from Maven Central.
NO_CONNECT = ("4.4.0",)
KAFKA = "org.apache.kafka"
CONNECT = ("runtime", "api", "json", "transforms")
FIRST_ON_SCALA_2_12, FIRST_ON_SCALA_2_13 = (2, 4), (2, 6)
PASSWORD = "password"  # noqa: S105  # the name of a type
# Configs of users in ZooKeeper: strings for Kafka, with salted keys in them.
CREDENTIALS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SOURCES = Path(__file__).parent / "java"
TIMEOUT_SECONDS = 120


class Config(NamedTuple):
    """A config: its type in small letters, and the first and last release that define it."""

    name: str
    type: str
    first: str
    last: str


def main() -> None:
    """Print how many there are of each release, and write the file."""
    found = []
    for release in RELEASES:
        configs = dict(defined_by(release))
        print(f"{release}: {len(configs)} configs")
        found.append((release, configs))
    lines = ["name\ttype\tfirst\tlast", *("\t".join(config) for config in merged(found))]
    (SCHEMA_DIRECTORY / "configs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def merged(found: Iterable[tuple[str, dict[str, str]]]) -> list[Config]:
    """The configs of all releases, which are oldest first, by name."""
    every: dict[str, Config] = {}
    for release, configs in found:
        for name, type_ in configs.items():
            before = every.get(name, Config(name, type_, release, release))
            is_password = PASSWORD in (type_, before.type)
            every[name] = Config(name, PASSWORD if is_password else type_, before.first, release)
    return sorted(every.values())


def defined_by(release: str) -> Iterable[tuple[str, str]]:
    """Names and types of the configs of a release."""
    broker = _fetch_jars(
        f"configs-{release}", [Artifact(KAFKA, f"kafka_{scala_of(release)}", release)]
    )
    parts = [Artifact(KAFKA, f"connect-{part}", release, is_alone=True) for part in CONNECT]
    if release == RELEASES[0]:
        parts.pop()  # transforms came with 0.11
    connect = broker if release in NO_CONNECT else _fetch_jars(f"connect-{release}", parts)
    class_path = _compile(f"config-names-{release}", broker, ["ConfigNames"], SOURCES)
    jars = [*sorted(broker.glob("kafka*.jar")), *connect.glob("connect-runtime-*.jar")]
    done = subprocess.run(
        ["java", "-cp", f"{class_path}{os.pathsep}{connect}/*", "ConfigNames", *map(str, jars)],
        capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True,
    )  # fmt: skip
    for line in done.stdout.splitlines():
        name, type_ = line.split("\t")
        yield name, PASSWORD if name in CREDENTIALS else type_.lower()


def scala_of(release: str) -> str:
    """The version of Scala in the name of a release's jar."""
    number = tuple(map(int, release.split(".")))
    if number < FIRST_ON_SCALA_2_12:
        return "2.11"
    return "2.12" if number < FIRST_ON_SCALA_2_13 else "2.13"


if __name__ == "__main__":
    main()
