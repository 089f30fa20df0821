"""Kills runs at random moments, does them again, and compares with the library.

    python -m tools.spark_kills --rounds 20
    python -m tools.spark_kills --rounds 5 --master 'local-cluster[2,1,1024]'
    python -m tools.spark_kills --until 1000 --master none

A round is a dataset: some kills of the driver, its JVM, all at once, a worker or an executor, each
at a random moment of the work, then a run without; with the master "none", kills of runs without
Spark. Captures appear in any order, and some are deleted or renamed, during a run and between two.
Then the rows must be those of the library for what was read, table by table, and all captures that
are there must have been read. Says each kill and round as a line of JSON; exit code 1 when rows
differ.
"""

import argparse
import json
import random
import shutil
import tempfile
from pathlib import Path

from kdissect.spark.sessions import environment
from tests.spark import quick_java
from tests.spark.killing import (
    ALL_AT_ONCE,
    DRIVER,
    EXECUTOR,
    JVM,
    WORKER,
    Ended,
    Place,
    run,
    run_alone,
)

NO_SPARK = "none"


class Kills:
    """Rounds with one master, and how many processes were killed in them."""

    def __init__(self, master: str, kills: int) -> None:
        self.master = master
        self.kills = kills
        self.killed = 0
        self.disturbed = 0
        # How long a run works, until one has run to its end.
        self.span = 1.5 if master == NO_SPARK else 20.0

    def hold(self, directory: Path, seed: int) -> bool:
        """Return whether the dataset of a round is right."""
        directory.mkdir(parents=True)
        chance = random.Random(seed)  # noqa: S311  # when to kill is no secret
        place = Place(directory, seed)
        place.more(1)
        for _ in range(self.kills):
            place.more(chance.randint(0, 2))
            self.between(place, chance)
            self.kill(place, chance, seed)
        place.more(len(place.coming))
        last = self.run(place)
        self.learn(last)
        told = {"seed": seed, "code": last.code, "seconds": round(last.worked, 1)}
        try:
            rows = place.check()
        except AssertionError as error:
            print(json.dumps({**told, "wrong": str(error)[:2000], "stderr": last.error[-2000:]}))
            return False
        print(json.dumps({**told, "rows": rows}), flush=True)
        shutil.rmtree(directory)
        return last.code == 0

    def between(self, place: Place, chance: random.Random) -> None:
        """Delete or rename a capture between two runs, or not."""
        if chance.random() < 0.3:
            self.disturbed += bool(place.disturb())

    def kill(self, place: Place, chance: random.Random, seed: int) -> None:
        """Begin a run, and kill it."""
        after, moved = chance.uniform(0, self.span), place.moved
        disturbed = chance.uniform(0, self.span) if chance.random() < 0.3 else -1.0
        before = len(place.there())
        kinds = [DRIVER, JVM, ALL_AT_ONCE, EXECUTOR if "cluster" in self.master else WORKER]
        ended = self.run(place, chance.choice(kinds), after, disturbed)
        self.disturbed += place.moved > moved or len(place.there()) < before
        self.killed += bool(ended.kill)
        said = {"after": round(after, 2), "worked": round(ended.worked, 2), "code": ended.code}
        print(json.dumps({"seed": seed, "kill": ended.kill, **said}), flush=True)
        self.learn(ended)

    def learn(self, ended: Ended) -> None:
        """Take the time that a whole run works, for the moments of later kills."""
        if ended.code == 0:
            self.span = max(ended.worked, 0.3)

    def run(
        self, place: Place, kill: str = "", after: float = -1.0, disturbed: float = -1.0
    ) -> Ended:
        """A run, with Spark or without."""
        if self.master == NO_SPARK:
            return run_alone(place, after, disturbed)
        return run(place, self.master, kill, max(after, 0.0), disturbed)


def main() -> int:
    made = argparse.ArgumentParser("spark_kills")
    made.add_argument("--rounds", type=int, default=20)
    made.add_argument("--until", type=int, default=0, help="rounds until so many are killed")
    made.add_argument("--kills", type=int, default=3, help="tried in a round")
    made.add_argument("--master", default="local[2]", help=f"or {NO_SPARK}")
    made.add_argument("--seed", type=int, default=0, help="of the first round; then one more")
    made.add_argument("--directory", type=Path, default=None)
    chosen = made.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="spark-kills-", dir=chosen.directory))
    kills = Kills(chosen.master, chosen.kills)
    rounds = failed = 0
    try:
        with environment({} if chosen.master == NO_SPARK else quick_java.variables()):
            while kills.killed < chosen.until if chosen.until else rounds < chosen.rounds:
                seed = chosen.seed + rounds
                failed += not kills.hold(directory / str(seed), seed)
                rounds += 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    told = {"rounds": rounds, "kills": kills.killed, "disturbed": kills.disturbed}
    print(json.dumps({**told, "failed": failed}))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
