"""The command line: `python -m benchmarks.causes record|score|show`."""

import argparse
import os
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from benchmarks.causes import document, stage
from benchmarks.causes.drawn import drawn
from benchmarks.causes.plan import ALL
from benchmarks.causes.score import captures_in, line, score_all, score_file, shown, totals
from benchmarks.causes.table import HALVES, RECORDER


def main() -> None:
    """Run a subcommand."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.causes", description=__doc__)
    commands = parser.add_subparsers(required=True)
    recording = commands.add_parser("record", help="stage incidents and capture them")
    recording.add_argument("-o", "--output", type=Path, required=True)
    recording.add_argument("--half", choices=HALVES)
    recording.add_argument("--missing", action="store_true", help="only those that are not there")
    recording.add_argument("--drawn", type=int, metavar="SEED", help="what this seed draws")
    recording.add_argument("names", nargs="*", help="those whose name begins with one of these")
    recording.set_defaults(run=record)
    telling = commands.add_parser("retell", help="write truths and views of captures anew")
    telling.add_argument("-o", "--output", type=Path, required=True)
    telling.add_argument("--drawn", type=int, metavar="SEED", help="as it was recorded")
    telling.add_argument("names", nargs="*", help="those whose name begins with one of these")
    telling.set_defaults(run=retell, half=None, missing=False)
    scoring = commands.add_parser("score", help="compare pages with the truth")
    scoring.add_argument("directories", type=Path, nargs="+", metavar="DIR")
    scoring.add_argument("--docs", type=Path, help="write the page with the table there")
    scoring.add_argument("--wrong", action="store_true", help="only lines of what is wrong")
    scoring.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    scoring.set_defaults(run=score)
    showing = commands.add_parser("show", help="a capture's findings beside its truth")
    showing.add_argument("captures", nargs="+", type=Path)
    showing.set_defaults(run=show)
    arguments = parser.parse_args()
    arguments.run(arguments)


def planned_by(arguments: argparse.Namespace) -> list[stage.Planned]:
    """Recordings named on the command line."""
    every: Iterable[stage.Planned] = (
        (name, half, what, variant) for what in ALL for name, half, variant in what.named_variants()
    )
    if arguments.drawn is not None:
        every = drawn(arguments.drawn)
    return [
        planned
        for planned in every
        if arguments.half in (None, planned[1])
        and (not arguments.names or any(planned[0].startswith(each) for each in arguments.names))
        and not (
            arguments.missing and (arguments.output / planned[1] / f"{planned[0]}.pcapng").exists()
        )
    ]


def retell(arguments: argparse.Namespace) -> None:
    """Rewrite truths and views of the recordings."""
    stage.retell(arguments.output, planned_by(arguments))


def record(arguments: argparse.Namespace) -> None:
    """Stage the chosen incidents, cluster by cluster."""
    planned = planned_by(arguments)

    def key(entry: stage.Planned) -> tuple[str, str]:
        return entry[3].version, entry[3].shape

    failed: list[str] = []
    for (version, shape), those in groupby(sorted(planned, key=key), key=key):
        print(f"# Kafka {version}, {shape}", flush=True)
        play = stage.record_scenarios if shape == RECORDER else stage.record_on
        try:
            failed += play(version, shape, list(those), arguments.output)
        except Exception as error:  # the other clusters are started all the same
            print(f"# failed: {type(error).__name__}: {error}", flush=True)
            failed.append(f"{version}/{shape}")
    print(f"failed: {', '.join(failed) or 'none'}")


def score(arguments: argparse.Namespace) -> None:
    """Print lines and counts, perhaps write the page."""
    captures = [file for directory in arguments.directories for file in captures_in(directory)]
    scores = score_all(captures, arguments.jobs)
    for half in HALVES:
        those = [one for one in scores if one.truth.half == half]
        if not those:
            continue
        print(f"== {half}")
        for one in those:
            if not (arguments.wrong and one.is_right):
                print(line(one))
        print(f"{half}: {document.sentence(totals(those))}\n")
    if arguments.docs:
        arguments.docs.write_text(document.page(scores), encoding="utf-8")


def show(arguments: argparse.Namespace) -> None:
    """Print findings beside the truth."""
    for capture in arguments.captures:
        print(shown(score_file(capture)) + "\n")


if __name__ == "__main__":
    main()
