"""Batches that overtake one that was refused, of a producer with several requests in flight.

The broker answers them with OUT_OF_ORDER_SEQUENCE_NUMBER; the producer sends all of them again,
in order. The code tells a loss only where no such batch was refused, or where one was given up.
"""

from collections import defaultdict
from typing import Final, NamedTuple

from kdissect.rules.conditions import among, some
from kdissect.rules.context import Context, number, time_ns
from kdissect.rules.evidence_rows import Row
from kdissect.rules.produce_rules import NO_ANSWER

OUT_OF_ORDER: Final = "OUT_OF_ORDER_SEQUENCE_NUMBER"
Client = tuple[str | None, str | None]  # id and address


class _Batches(NamedTuple):
    """Batches of a client that were sent again: by topic, the first refused one; those behind."""

    refused: dict[str | None, int]
    behind: list[Row]


def overtaking(seen: Context) -> dict[Client, int]:
    """Clients whose batches out of order overtook refused ones and were written, with the number
    of errors that this explains.
    """
    if not any(seen.every("errors", among("error", [OUT_OF_ORDER]))):
        return {}
    batches: dict[Client, _Batches] = defaultdict(lambda: _Batches({}, []))
    lost = {_client(row) for row in seen.every("delivery", some("given_up"))}
    for row in seen.every("retries"):
        if number(row, "not_written"):
            lost.add(_client(row))
        elif row["cause"] == OUT_OF_ORDER:
            batches[_client(row)].behind.append(row)
        elif row["cause"] not in NO_ANSWER:
            refused = batches[_client(row)].refused
            refused[row["topic"]] = min(refused.get(row["topic"], _sent(row)), _sent(row))
    return {
        client: sum(number(row, "batches") * (number(row, "tries") - 1) for row in those.behind)
        for client, those in batches.items()
        if client not in lost and all(_is_behind(row, those.refused) for row in those.behind)
    }


def _client(row: Row) -> Client:
    return row["client_id"], row["client_ip"]


def _sent(row: Row) -> int:
    return time_ns(row, "first_sent") or 0


def _is_behind(row: Row, refused: dict[str | None, int]) -> bool:
    return row["topic"] in refused and refused[row["topic"]] <= _sent(row)
