"""The package that opens interfaces where there are no rings, which not everybody has installed."""

from kdissect.system.extras import missing_extra


def missing_text() -> str:
    """The error where an interface cannot be opened for want of scapy."""
    return missing_extra("capturing without a ring (scapy)", "live")


def has_package() -> bool:
    """Whether scapy is there; it is not imported, which takes half a second."""
    from importlib.util import find_spec

    return find_spec("scapy") is not None
