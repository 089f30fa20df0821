"""Applies the manifests of deploy/kubernetes to a cluster, and submits the pipeline to it.

    python -m tools.kubernetes PROGRAMS --java JDK [--engine podman] [--image IMAGE] [--only CHECK]

Beside the manifests, real brokers run and a client on another machine. As root, with the programs
of a cluster in one directory (tools/kubernetes/build), runc, the plugins of CNI, and an image of
kdissect in an engine like Docker. The cluster is one node in namespaces of its own, which end with
it. Prints a line for each check that passes, and exits with an error at the first that fails.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tools.kubernetes import checks, images, node, spark_job
from tools.namespaces import cabled

MACHINE, NODE = "10.77.0.1", "10.77.0.2"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("programs", type=Path)
    parser.add_argument(
        "--java", type=Path, required=True, help="a JDK 17, for the broker and Spark"
    )
    parser.add_argument("--engine", default="podman")
    parser.add_argument("--image", default="localhost/kdissect:0.1.0")
    every = (*checks.CHECKS, spark_job.pipeline)
    names = [check.__name__ for check in every]
    parser.add_argument("--only", choices=names, action="append")
    options = parser.parse_args()
    if missing := [one for one in node.PROGRAMS if not (options.programs / one).exists()]:
        sys.exit(f"not in {options.programs}: {', '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="kdissect-node-") as directory:
        place = Path(directory)
        archive = images.archived(options.engine, options.image, options.java, place)
        with (
            cabled(MACHINE, NODE) as cable,
            node.started(options.programs.resolve(), archive, cable, place) as one,
        ):
            print(one.kubectl("version").splitlines()[-1], flush=True)
            for check in every:
                if not options.only or check.__name__ in options.only:
                    print(f"{check.__name__}: {check(one)}", flush=True)


if __name__ == "__main__":
    main()
