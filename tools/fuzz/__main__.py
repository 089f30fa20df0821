"""Coverage-guided fuzzing, see README.md beside this file.

python -m tools.fuzz [--minutes N] [TARGET...]     fuzz the targets in turn, N minutes in all
python -m tools.fuzz --keep                        minimise what was found for the tests
"""

import argparse
import hashlib
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

PLACE: Final = Path("build", "fuzz")
INPUT_LIMIT: Final = 4096  # bytes of an input
INPUT_SECONDS: Final = 20  # libFuzzer ends an input that takes longer
MEMORY_MB: Final = 2048
SLOW_SECONDS: Final = 2.0  # and an input that takes more CPU than this is a finding too
KEPT_SIZE: Final = 3000  # of larger inputs the tests would take too long
KEPT_EDITED: Final = 60  # of inputs that cost a whole capture each, the longest


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--child", choices=("fuzz", "merge"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_child(options.targets[0], options.targets[1:])
        return
    from tools.fuzz.targets import TARGETS

    targets = options.targets or list(TARGETS)
    if options.keep:
        keep(targets)
        return
    failed = [name for name in targets if not fuzz(name, options.minutes * 60 / len(targets))]
    sys.exit(f"findings in {', '.join(failed)}: see {PLACE}" if failed else 0)


def fuzz(target: str, seconds: float) -> bool:
    """Fuzz one target in a process of its own; return whether nothing was found."""
    from tools.fuzz.corpus import CORPUS, read_corpus
    from tools.fuzz.seeds import seeds

    corpus = PLACE / target / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    committed = [raw for name, raw in read_corpus() if name == target] if CORPUS.exists() else []
    for raw in [*seeds(target), *committed]:
        (corpus / hashlib.sha256(raw).hexdigest()[:20]).write_bytes(raw)
    print(f"{target}: {len(list(corpus.iterdir()))} inputs, {seconds:.0f} s", flush=True)
    start = time.monotonic()
    log = PLACE / f"{target}.log"
    with log.open("w") as output:
        ended = subprocess.run(
            [
                *child("fuzz", target),
                f"-max_total_time={seconds:.0f}",
                f"-max_len={max(INPUT_LIMIT, largest(corpus))}",
                f"-timeout={INPUT_SECONDS}",
                f"-rss_limit_mb={MEMORY_MB}",
                f"-artifact_prefix={PLACE / target}/",
                "-print_final_stats=1",
                str(corpus),
            ],
            stdout=output,
            stderr=output,
            check=False,
        )
    minutes = (time.monotonic() - start) / 60
    print(f"{target}: {minutes:.1f} min, {summary(log.read_text(errors='replace'))}", flush=True)
    return ended.returncode == 0


def child(kind: str, target: str) -> list[str]:
    return [sys.executable, "-m", "tools.fuzz", "--child", kind, "--", target]


def largest(corpus: Path) -> int:
    return max(path.stat().st_size for path in corpus.iterdir())


def summary(log: str) -> str:
    """Executions, coverage and the size of the corpus, from libFuzzer's last report."""
    lines = re.findall(r"#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)", log)
    if not lines:
        return "no input was run: see the log"
    executions, coverage, features, kept = lines[-1]
    done = re.findall(r"number_of_executed_units: (\d+)", log)
    finding = re.findall(r"Test unit written to (\S+)", log)
    text = f"{done[-1] if done else executions} executions, coverage {coverage} edges"
    return f"{text}, {features} features, corpus {kept}, findings: {' '.join(finding) or 'none'}"


def run_child(target: str, arguments: list[str]) -> None:
    """Never returns: libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["kdissect"]):
        from tools.fuzz.targets import TARGETS
    check = TARGETS[target]

    def test_one_input(data: bytes) -> None:
        start = time.process_time()
        check(data)
        seconds = time.process_time() - start
        assert seconds < SLOW_SECONDS, f"{seconds:.1f} s for {len(data)} bytes"

    # libFuzzer starts itself again to merge, by the name that it is given.
    again = (PLACE / target / "again").absolute()
    again.write_text(f'#!/bin/sh\nexec {shlex.join(child("merge", target))} "$@"\n')
    again.chmod(0o755)
    atheris.Setup([str(again), *arguments], test_one_input)
    atheris.Fuzz()


def keep(targets: list[str]) -> None:
    """Write the inputs that reach different code to the corpus of the tests."""
    from tools.fuzz.corpus import CORPUS, EDITED, read_corpus, write_corpus

    kept = read_corpus() if CORPUS.exists() else []
    for target in targets:
        corpus = PLACE / target / "corpus"
        if not corpus.exists():
            continue
        least = PLACE / target / "least"
        least.mkdir(exist_ok=True)
        for path in least.iterdir():
            path.unlink()
        command = [*child("merge", target), "-merge=1", "-max_len=4096", str(least), str(corpus)]
        subprocess.run(command, check=True, capture_output=True)
        inputs = [raw for raw in map(Path.read_bytes, least.iterdir()) if len(raw) <= KEPT_SIZE]
        if target in EDITED:
            inputs = sorted(inputs, key=len, reverse=True)[:KEPT_EDITED]
        kept = [entry for entry in kept if entry[0] != target]
        kept += [(target, raw) for raw in inputs]
        print(f"{target}: {len(inputs)} inputs of {sum(map(len, inputs))} bytes")
    print(f"{CORPUS.name}: {write_corpus(kept)} bytes")


if __name__ == "__main__":
    main()
