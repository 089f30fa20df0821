"""``kdissect-job``: the commands of ``kdissect spark`` as a program for spark-submit.

    spark-submit --master spark://host:7077 "$(which kdissect-job.py)" dissect /captures -o DIR

It takes the session that spark-submit makes; started otherwise, it makes one as ``kdissect spark``
does.
"""

import sys
from collections.abc import Sequence

from kdissect.cli.program import run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of ``kdissect spark``; gives its exit code."""
    return run(["spark", *(sys.argv[1:] if arguments is None else arguments)])


if __name__ == "__main__":
    raise SystemExit(main())
