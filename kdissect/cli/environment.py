"""Version and environment of this kdissect."""

import importlib.util
import sys
from importlib.machinery import EXTENSION_SUFFIXES

from kdissect.system.extras import MissingExtra, fast_inflate

HOT_MODULE = "kdissect.framing.frames"  # all are compiled or none


def is_compiled() -> bool:
    """Return whether the hot modules are compiled as C extensions."""
    spec = importlib.util.find_spec(HOT_MODULE)
    return bool(spec and spec.origin and spec.origin.endswith(tuple(EXTENSION_SUFFIXES)))


def version_text() -> str:
    """Like ``kdissect 0.1.0 (compiled), Python 3.11.7``, and ``, isal 1.9.1`` with that extra."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        number = version("kdissect")
    except PackageNotFoundError:
        number = "(not installed)"
    kind = "compiled" if is_compiled() else "plain Python"
    with_isal = f", isal {version('isal')}" if fast_inflate() is not None else ""
    return f"kdissect {number} ({kind}), Python {sys.version.split()[0]}{with_isal}"


def require_extra(feature: str, extra: str, module: str) -> None:
    """Exit with one line that names the extra to install when `module` is missing."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # a package that it is in
        spec = None
    if spec is None:
        raise MissingExtra(feature, extra)
