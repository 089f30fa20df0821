"""Fetch the plot library of reports anew: python -m tools.report_page.library

Takes the minified file and its licences from the package of npm that is pinned here, by way of
`npm pack`, and writes them only when the package's hash is the pinned one.
"""

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
VENDOR: Final = ROOT / "kdissect" / "report" / "vendor"
PACKAGE: Final = "echarts"
VERSION: Final = "6.1.0"
SHA512: Final = (
    "q0yaFPggC9FUdsWH4blavRWFmxdrIodbkoKNAjJudAI6CA9gNPxHtV2RcZNEepZVlk4yvBYkOkbk6HIVpIyHZA=="
)
# File of the package → its name here.
FILES: Final = {
    "dist/echarts.min.js": "echarts.min.js",
    "LICENSE": "echarts-LICENSE.txt",
    "NOTICE": "echarts-NOTICE.txt",
    "licenses/LICENSE-d3": "echarts-LICENSE-d3.txt",
}


def packed(directory: Path) -> bytes:
    """The package as npm has it."""
    command = ["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}"]
    subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    return (directory / f"{PACKAGE}-{VERSION}.tgz").read_bytes()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        content = packed(directory)
        digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
        if digest != SHA512:
            sys.exit(f"{PACKAGE} {VERSION} is another package: sha512 {digest}")
        with tarfile.open(directory / f"{PACKAGE}-{VERSION}.tgz") as package:
            for path, target in FILES.items():
                member = package.extractfile(f"package/{path}")
                assert member is not None, path
                (VENDOR / target).write_bytes(member.read())
                print(VENDOR / target)


if __name__ == "__main__":
    main()
