"""The package that opens interfaces where there are no rings, which not everybody has installed."""

from typing import Final

MISSING: Final = 'capturing without a ring needs the package scapy: pip install "kdissect[live]"'


def has_package() -> bool:
    """Whether scapy is there; it is not imported, which takes half a second."""
    from importlib.util import find_spec

    return find_spec("scapy") is not None
