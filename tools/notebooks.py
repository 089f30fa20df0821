"""Runs the notebooks and writes them with their outputs: ``python -m tools.notebooks``."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

import kdissect

DIRECTORY = Path(__file__).parent.parent / "notebooks"
SECONDS = 300  # a cell may take, with a JVM to start


def run(path: Path, more: str = "") -> Any:
    """The notebook with new outputs; `more` is a cell at its end."""
    notebook: Any = nbformat.read(path, as_version=4)
    if more:
        notebook.cells.append(nbformat.v4.new_code_cell(more))
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
    )
    # The kernel starts beside the notebook, and shall import the same kdissect.
    sources = str(Path(kdissect.__path__[0]).parent)
    paths = [sources, *filter(None, [os.environ.get("PYTHONPATH")])]
    with TemporaryDirectory(prefix="kdissect-") as place:
        kernel = client.create_kernel_manager()
        kernel.transport, kernel.ip = "ipc", f"{place}/kernel"  # no ports that anybody may open
        client.execute(env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)})
    return notebook


def main() -> None:
    for path in sorted(DIRECTORY.glob("*.ipynb")):
        notebook = run(path)
        nbformat.write(notebook, path)
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
