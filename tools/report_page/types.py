"""Check the script of reports with TypeScript's compiler: python -m tools.report_page.types

The script is JavaScript whose types are in JSDoc comments. Needs node: without, a line says that
nothing was checked. The compiler comes from npm by way of `npx`.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from kdissect.report.document import KINDS, Kind

ROOT: Final = Path(__file__).resolve().parents[2]
COMPILER: Final = "typescript@5.9.3"
# Unused names and paths without a result are what a linter would find.
OPTIONS: Final = (
    "--noEmit", "--allowJs", "--checkJs", "--strict", "--noUnusedLocals", "--noUnusedParameters",
    "--noImplicitReturns", "--noFallthroughCasesInSwitch", "--target", "es2022",
    "--lib", "es2022,dom,dom.iterable",
)  # fmt: skip


def command(kind: Kind) -> list[str]:
    """The compiler with the scripts in the order in which a page has them."""
    scripts = [str(ROOT / "kdissect" / "report" / "page" / name) for name in kind.scripts]
    globals_ = str(Path(__file__).with_name("globals.d.ts"))
    return ["npx", "--yes", "--package", COMPILER, "tsc", *OPTIONS, globals_, *scripts]


def main() -> int:
    if shutil.which("npx") is None:
        print("not checked: the script of reports needs node (npx) for TypeScript's compiler")
        return 0
    for kind in KINDS:
        code = subprocess.run(command(kind), check=False).returncode
        if code:
            return code
        print(f"{COMPILER}: {len(kind.scripts)} scripts of {kind.html} hold")
    return 0


if __name__ == "__main__":
    sys.exit(main())
