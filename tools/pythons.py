"""The Pythons of this machine that kdissect supports.

A Python counts when it starts, is of a supported version, and has ssl, ctypes and venv: one that
was built without their libraries installs nothing. Looked for on PATH, and where pyenv and uv keep
theirs.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
PROBE = "import ctypes, ensurepip, ssl, sys, venv; print('.'.join(map(str, sys.version_info[:3])))"


def version_of(python: Path) -> str:
    """Version of a working Python, such as 3.12.1; "" otherwise."""
    try:
        done = subprocess.run(
            [python, "-c", PROBE], capture_output=True, text=True, check=False, timeout=60
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def candidates(supported: str) -> Iterator[Path]:
    """Programs that may be Python `supported`, those on PATH first."""
    if on_path := shutil.which(f"python{supported}"):
        yield Path(on_path)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{supported}.*/bin/python3"))
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local/share/uv/python")
    yield from sorted(uv.glob(f"cpython-{supported}.*/bin/python3"))


def found_pythons() -> dict[str, Path]:
    """One working Python of each supported version."""
    found = {}
    for supported in SUPPORTED:
        for candidate in candidates(supported):
            if version_of(candidate).startswith(f"{supported}."):
                found[supported] = candidate
                break
    return found


if __name__ == "__main__":
    for supported in SUPPORTED:
        print(supported, found_pythons().get(supported, "not found"))
