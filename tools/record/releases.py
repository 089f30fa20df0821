"""The broker releases that are recorded: what each needs to run on a JDK of today.

All of them run on JDK 17, with this help: until 1.1 a newer ZooKeeper than their own, whose client
does not read the addresses that Java prints since 14, and JAXB, which Java had until 10.
"""

from typing import NamedTuple

NEWEST = "4.3.1"
LOG4J1 = "log4j1"
LOG4J2 = "log4j2"


class Release(NamedTuple):
    """A Kafka release as a broker: with ZooKeeper (old) or KRaft."""

    version: str
    scala: str
    has_kraft: bool
    zookeeper: str | None = None  # a ZooKeeper newer than the release's own, when that one fails
    logging: str = LOG4J1

    @property
    def number(self) -> tuple[int, ...]:
        """The version for comparisons: (2, 8, 2)."""
        return version_number(self.version)


def version_number(version: str) -> tuple[int, ...]:
    """A dotted version as numbers."""
    return tuple(int(part) for part in version.split("."))


RELEASES = {
    release.version: release
    for release in (
        Release("0.8.2.2", "2.11", has_kraft=False, zookeeper="3.5.10"),
        Release("0.9.0.1", "2.11", has_kraft=False, zookeeper="3.5.10"),
        Release("0.10.2.2", "2.11", has_kraft=False, zookeeper="3.5.10"),
        Release("0.11.0.3", "2.11", has_kraft=False, zookeeper="3.5.10"),
        Release("1.1.1", "2.11", has_kraft=False, zookeeper="3.5.10"),
        Release("2.4.1", "2.12", has_kraft=False),
        Release("2.8.2", "2.13", has_kraft=False),
        Release("3.4.1", "2.13", has_kraft=True),
        Release("3.9.1", "2.13", has_kraft=True),
        Release("4.0.1", "2.13", has_kraft=True, logging=LOG4J2),
        Release("4.3.1", "2.13", has_kraft=True, logging=LOG4J2),
    )
}
