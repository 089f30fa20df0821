"""``kdissect-job``: ``kdissect spark``, and questions answered by Spark, for spark-submit.

    spark-submit --master spark://host:7077 "$(which kdissect-job.py)" dissect /captures -o DIR
    spark-submit --master spark://host:7077 "$(which kdissect-job.py)" latency DIR --by tap

It uses the session of spark-submit; started otherwise, it makes one as ``kdissect spark`` does.
"""

import sys
from collections.abc import Sequence

from kdissect.cli.program import ANALYSES, COMMANDS, run

QUESTIONS = {*(name for name, module in COMMANDS.items() if module == ANALYSES), "compare"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of ``kdissect spark``, or a question; return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in QUESTIONS:
        # The last option counts, so another engine may be requested.
        return run([given[0], "--engine", "spark", *given[1:]])
    return run(["spark", *given])


if __name__ == "__main__":
    raise SystemExit(main())
