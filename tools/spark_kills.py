"""Kills streams on Spark at random moments, does them again, and compares with the library.

    python -m tools.spark_kills --rounds 20
    python -m tools.spark_kills --rounds 5 --master 'local-cluster[2,1,1024]'

A round is a dataset: some kills of the driver, its JVM, all at once, a worker or an executor, each
at a random moment of the work, then a run without; then its rows must be those of the library,
table by table. Says each kill and round as a line of JSON; exit code 1 when rows differ.
"""

import argparse
import json
import random
import shutil
import tempfile
import time
from pathlib import Path

from kdissect.spark.sessions import environment
from tests.spark import quick_java
from tests.spark.killing import ALL_AT_ONCE, DRIVER, EXECUTOR, JVM, WORKER, Place, run


def main() -> int:
    made = argparse.ArgumentParser("spark_kills")
    made.add_argument("--rounds", type=int, default=20)
    made.add_argument("--kills", type=int, default=3, help="of a round, at most")
    made.add_argument("--master", default="local[2]")
    made.add_argument("--seed", type=int, default=0, help="of the first round; then one more")
    made.add_argument("--directory", type=Path, default=None)
    chosen = made.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="spark-kills-", dir=chosen.directory))
    failed = 0
    try:
        with environment(quick_java.variables()):
            for seed in range(chosen.seed, chosen.seed + chosen.rounds):
                failed += not hold(directory / str(seed), seed, chosen.kills, chosen.master)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(json.dumps({"rounds": chosen.rounds, "failed": failed}))
    return 1 if failed else 0


def hold(directory: Path, seed: int, kills: int, master: str) -> bool:
    """Return whether the dataset of a round is right."""
    directory.mkdir(parents=True)
    chance = random.Random(seed)  # noqa: S311  # when to kill is no secret
    place = Place(directory, seed)
    kinds = [DRIVER, JVM, ALL_AT_ONCE, EXECUTOR if "cluster" in master else WORKER]
    span = 20.0  # until one has run to its end
    for _ in range(kills):
        place.more(chance.randint(1, 2))
        kill, after = chance.choice(kinds), chance.uniform(0, span)
        ended = run(place, master, kill, after)
        said = {"after": round(after, 2), "worked": round(ended.worked, 2), "code": ended.code}
        print(json.dumps({"seed": seed, "kill": ended.kill, **said}), flush=True)
        if ended.code == 0:
            span = max(ended.worked, 1.0)
    place.more(len(place.coming))
    begun = time.monotonic()
    last = run(place, master)
    told = {"seed": seed, "code": last.code, "seconds": round(time.monotonic() - begun, 1)}
    try:
        rows = place.check()
    except AssertionError as error:
        print(json.dumps({**told, "wrong": str(error)[:2000], "stderr": last.error[-2000:]}))
        return False
    print(json.dumps({**told, "rows": rows}), flush=True)
    shutil.rmtree(directory)
    return last.code == 0


if __name__ == "__main__":
    raise SystemExit(main())
