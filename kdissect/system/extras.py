"""Optional dependencies: the extras that pyproject.toml declares, and how to install one.

The command names the packages themselves, as the installed distribution's metadata declares them.
So it works for any installation of kdissect: a checkout, a wheel, a container.
"""

import re
import shlex
from functools import cache
from types import ModuleType

from kdissect.errors import InvalidArgument

DISTRIBUTION = "kdissect"


class MissingExtra(InvalidArgument):
    """A feature needs an extra that is not installed; the text has the install command."""

    def __init__(self, feature: str, *extras: str) -> None:
        super().__init__(missing_extra(feature, *extras))


def missing_extra(feature: str, *extras: str) -> str:
    """Error like ``TLS decryption needs the extra "tls": pip install "cryptography>=43"``."""
    named = " and ".join(f'"{extra}"' for extra in extras)
    word = "extra" if len(extras) == 1 else "extras"
    return f"{feature} needs the {word} {named}: {install_command(*extras)}"


def install_command(*extras: str) -> str:
    """The pip command that installs the packages of these extras."""
    # It imports email, sockets and zip files: a tenth of the time of a small capture.
    from importlib.metadata import PackageNotFoundError, requires

    try:
        declared = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return f'pip install ".[{",".join(extras)}]"'  # running from a source checkout
    needed = [requirement for extra in extras for requirement in packages_of(extra, declared)]
    return " ".join(["pip install", *(_quoted(requirement) for requirement in needed)])


def packages_of(extra: str, declared: list[str]) -> list[str]:
    """Requirements of this extra, without the marker that says so; other markers stay."""
    of_extra = re.compile(rf"(?:(?P<others>.+) and )?extra == ([\"']){re.escape(extra)}\2")
    found = []
    for requirement in declared:
        name, _, marker = requirement.partition(";")
        if match := of_extra.fullmatch(marker.strip()):
            found.append("; ".join(filter(None, (name.strip(), match["others"]))))
    return found


def _quoted(requirement: str) -> str:
    quoted = shlex.quote(requirement)
    if quoted == requirement or '"' in requirement:
        return quoted
    return f'"{requirement}"'


@cache
def fast_inflate() -> ModuleType | None:
    """The module of ISA-L that has zlib's interface; None without the extra `isal`."""
    try:
        from isal import isal_zlib
    except ImportError:
        return None
    module: ModuleType = isal_zlib
    return module
