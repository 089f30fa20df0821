"""The bill of materials of an installed kdissect: python -m tools.sbom WHEEL [--audit]

Installs the wheel into a new environment, and the tools of release/requirements.txt, whose hashes
are checked, into another. Writes WHEEL's name with .cdx.json: every package that `pip install
kdissect` brings, and the plot library in it, with versions and licences, as CycloneDX. `--audit`
asks for known vulnerabilities of the packages, which takes PyPI's own index, and exits 1 when there
is one.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.report_page import library

ROOT: Final = Path(__file__).resolve().parent.parent
UV: Final = (sys.executable, "-m", "uv", "--quiet")
VERSION: Final = "1.6"  # of CycloneDX


def environment(place: Path, *words: str | Path) -> Path:
    """The Python of a new environment with the packages of `pip install` with these words."""
    subprocess.run([*UV, "venv", place], check=True)
    python = place / "bin" / "python"
    subprocess.run([*UV, "pip", "install", "--python", python, *words], check=True)
    return python


def components(document: Path) -> list[str]:
    """The packages in a bill of materials, like ``click 8.3.1``."""
    listed = json.loads(document.read_text(encoding="utf-8"))["components"]
    return sorted(named(one) for one in listed)


def named(package: dict[str, str]) -> str:
    """Like ``google-crc32c 1.9.0``, the name as PyPI compares names."""
    name = re.sub(r"[-_.]+", "-", package["name"]).lower()
    return f"{name} {package['version']}"


def installed(python: Path) -> list[str]:
    """The same as uv tells it of an environment."""
    words = [*UV, "pip", "list", "--python", python, "--format", "json"]
    listed = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return sorted(named(one) for one in listed)


def add_bundled(document: Path) -> None:
    """Add what the package contains and no package of Python names: the plot library of reports."""
    found = json.loads(document.read_text(encoding="utf-8"))
    content = (ROOT / "kdissect" / "report" / "vendor" / "echarts.min.js").read_bytes()
    found["components"].append(
        {
            "bom-ref": f"pkg:npm/{library.PACKAGE}@{library.VERSION}",
            "type": "library",
            "name": library.PACKAGE,
            "version": library.VERSION,
            "purl": f"pkg:npm/{library.PACKAGE}@{library.VERSION}",
            "licenses": [{"license": {"id": "Apache-2.0", "acknowledgement": "declared"}}],
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}],
        }
    )
    document.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--audit", action="store_true")
    arguments = parser.parse_args()
    document = arguments.wheel.with_suffix(".cdx.json").resolve()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        python = environment(place / "kdissect", arguments.wheel)
        pinned = ROOT / "release" / "requirements.txt"
        tools = environment(place / "tools", "--require-hashes", "-r", pinned).parent
        subprocess.run(
            [tools / "cyclonedx-py", "environment", "--spec-version", VERSION, "--output-format",
             "JSON", "--output-reproducible", "--validate", "-o", document, python],
            check=True,
        )  # fmt: skip
        if components(document) != installed(python):
            sys.exit(f"{document.name} is not what is installed: {installed(python)}")
        add_bundled(document)
        print(f"{document.name}: {len(components(document))} packages")
        if not arguments.audit:
            return 0
        paths = subprocess.run(
            [python, "-c", "import site; print(site.getsitepackages()[0])"],
            check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
        audit = [tools / "pip-audit", "--path", paths, "--skip-editable", "--progress-spinner=off"]
        return subprocess.run(audit, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
