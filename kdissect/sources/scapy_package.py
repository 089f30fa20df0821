"""The optional package scapy, which opens interfaces on systems without rings."""

from kdissect.system.extras import missing_extra


def missing_text() -> str:
    """Error text for an interface that cannot be opened without scapy."""
    return missing_extra("capturing without a ring (scapy)", "live")


def has_package() -> bool:
    """Return whether scapy is installed; it is not imported, which takes half a second."""
    from importlib.util import find_spec

    return find_spec("scapy") is not None
