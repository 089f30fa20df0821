"""Match of found with true exchanges: by a frame's first packet, size and bytes."""

from dataclasses import dataclass

from kdissect.exchanges.exchange import Exchange
from kdissect.framing.frames import Frame
from tests.exchange_builders import Found, Row
from tests.recovery.relations import DETAILS
from tests.recovery.seen import Case
from tests.recovery.talks import BROKER, CLIENT, TrueExchange, TrueFrame


@dataclass
class Match:
    """A found exchange and the true one it is; `is_orphan` when only its response was found."""

    true: TrueExchange
    found: Exchange
    row: Row
    rows: dict[str, list[Row]]

    @property
    def is_orphan(self) -> bool:
        return self.found.request_frame is None


def match(case: Case, found: Found) -> tuple[list[list[Match]], list[tuple[int, str]]]:
    """The found exchanges of each talk; and the phantoms, which are nothing true, with reasons."""
    rows = {row["exchange_id"]: row for row in found.rows}
    phantoms = []
    if len(rows) != len(found.rows):
        phantoms.append((-1, "two exchanges have the same id"))
    others: dict[int, dict[str, list[Row]]] = {}
    for table in DETAILS:
        for row in found.tables[table]:
            others.setdefault(row["exchange_id"], {}).setdefault(table, []).append(row)
    finder = Finder(case)
    matches: list[list[Match]] = [[] for _ in case.talks]
    for exchange in found.exchanges:
        row = rows[exchange.exchange_id]
        number, true = finder.find(exchange)
        if true is None:
            phantoms.append((number, f"{brief(row)}: {finder.reason}"))
        else:
            matches[number].append(Match(true, exchange, row, others.get(exchange.exchange_id, {})))
    return matches, phantoms


class Finder:
    """Finds true frames by the packet a found one starts in, its size and its bytes; each once."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.wires = {wire.number: wire for wire in case.wires}
        self.taken: set[tuple[int, int, int]] = set()
        self.reason = ""

    def find(self, exchange: Exchange) -> tuple[int, TrueExchange | None]:
        """The talk and the true exchange, or None with a `reason`."""
        request, response = exchange.request_frame, exchange.response_frame
        frame = request or response
        assert frame is not None
        number = self.wires[int(frame.start_packet)].talk
        truth = self.case.talks[number].truth
        asked = None if request is None else self._frame(CLIENT, number, request)
        answer = None if response is None else self._frame(BROKER, number, response)
        if request is not None and asked is None:
            self.reason = "no request of this size and with these bytes starts there"
            return number, None
        if response is not None and answer is None:
            self.reason = "no response of this size and with these bytes starts there"
            return number, None
        for true in truth:
            is_asked = request is None or true.request == asked
            if is_asked and (response is None or true.response == answer):
                return number, true
        self.reason = "request and response are of different exchanges, or no exchange"
        return number, None

    def _frame(self, side: int, number: int, frame: Frame) -> TrueFrame | None:
        wire = self.wires[int(frame.start_packet)]
        if wire.side != side or wire.talk != number:
            return None
        talk = self.case.talks[number]
        stream = talk.streams[side]
        for true in talk.frames[side]:
            key = (number, side, true.position)
            is_there = wire.position <= true.position < wire.end and key not in self.taken
            body = true.position + 4
            if (
                is_there
                and true.size == frame.size
                and stream[body : body + len(frame.data)] == frame.data
            ):
                self.taken.add(key)
                return true
        return None


def brief(row: Row) -> str:
    """An exchange in a few words."""
    words = ("api", "api_version", "correlation_id", "client_id", "outcome", "request_packet",
             "response_packet", "decode_status")  # fmt: skip
    return " ".join(f"{word}={row[word]}" for word in words if row[word] is not None)
