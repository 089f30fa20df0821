"""Packets dropped before a broker of the loopback gets them; taps see them all the same."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

TABLE = "kdissect_causes"
TIMEOUT_SECONDS = 20


@contextmanager
def unreachable(address: str, port: int) -> Iterator[None]:
    """Drop packets to and from this broker."""
    chain = f"{TABLE} incoming"
    rules = [
        f"add table netdev {TABLE}",
        f"add chain netdev {chain} {{ type filter hook ingress device lo priority 0; }}",
        f"add rule netdev {chain} ip daddr {address} tcp dport {port} drop",
        f"add rule netdev {chain} ip saddr {address} tcp sport {port} drop",
    ]
    _nft("; ".join(rules))
    try:
        yield
    finally:
        _nft(f"delete table netdev {TABLE}")


def _nft(rules: str) -> None:
    subprocess.run(["nft", rules], check=True, timeout=TIMEOUT_SECONDS, capture_output=True)
