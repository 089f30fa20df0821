"""What is imported late, imported before privileges are given up.

Afterwards this process may not be allowed to read the files of Python any more: kdissect may be
installed in root's home.
"""

from collections.abc import Collection
from importlib import import_module
from typing import Final

from kdissect.messages.telemetry import metrics_definition

# What the stages and Arrow import when they first meet what it is for.
LATE: Final = ("kdissect.tls.session", "pyarrow.compute", "pyarrow.ipc", "pyarrow.parquet")


def import_rest(tables: Collection[str]) -> None:
    """Import what is needed for these tables; what is no part of this installation is left out."""
    for name in LATE:
        import_module(name)
    if "bodies" in tables:
        metrics_definition()
