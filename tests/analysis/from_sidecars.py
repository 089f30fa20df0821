"""Side-cars: logs of clients and brokers from the recording of the captures."""

import json
from pathlib import Path
from typing import Any


def tables_of_sidecar(name: str) -> dict[str, list[dict[str, Any]]]:
    sidecar = json.loads(Path(f"captures/{name}.json").read_text())
    return {
        key: [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        for key, table in sidecar.items()
        if isinstance(table, dict) and "rows" in table
    }
