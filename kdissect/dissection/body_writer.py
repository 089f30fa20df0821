"""Whole bodies of exchanges → rows of `bodies` and `members`."""

from functools import partial
from typing import Final, cast

from mypy_extensions import i64

from kdissect.dissection.detail import Detail
from kdissect.dissection.row_sink import RowSink
from kdissect.errors import DecodeError
from kdissect.exchanges.api_mismatches import BELIEVED, blanked, doubt_of, guarded
from kdissect.exchanges.exchange import ANSWERED, API_HEARTBEAT, GROUP_HEARTBEATS, Exchange
from kdissect.messages.body_texts import regular_text
from kdissect.messages.decompression_budget import Unpacking
from kdissect.messages.full_bodies import body_json, full_body, member_body, topic_names
from kdissect.messages.layout_choice import UNEXPECTED_NULLS, Body
from kdissect.messages.memberships import memberships
from kdissect.messages.old_bodies import full_old_body
from kdissect.messages.opened_records import WITH_RECORDS, with_headers, with_sizes
from kdissect.messages.value_budget import LEFT_OUT
from kdissect.protocol.readers import NULL, ValueBudget
from kdissect.tables.body_rows import BodyRows, MemberRows

MEMBER_BYTES: Final = 500  # an event with its row
# Members of the new protocols repeat a heartbeat until they have news. Those that changed nothing
# are known by their bytes, up to so many pairs of so many bytes.
STEADY_BYTES: Final = 300
STEADY_LIMIT: Final = 2_000
CORRELATION_AT: Final = 4  # in a request, after key and version; a response begins with it
CORRELATION_END: Final = 8
RESPONSE_BODY_AT: Final = 4


class BodyWriter:
    """Decodes bodies in full, and adds their rows to `sink`.

    `names` are topic names by id; `decoded_limit` is that of one body.
    """

    def __init__(
        self,
        sink: RowSink,
        detail: Detail,
        unpacking: Unpacking,
        names: dict[bytes, str],
        has_payload: bool,
        decoded_limit: i64,
    ) -> None:
        self.sink = sink
        self.detail = detail
        self.unpacking = unpacking
        self.names = names
        self.has_payload = has_payload
        self.decoded_limit = decoded_limit
        self.steady: set[tuple[bytes, bytes, bytes]] = set()

    def write_members(self, exchange: Exchange) -> None:
        """Add rows of a group's exchange; most are heartbeats without changes."""
        if exchange.api_key == API_HEARTBEAT and exchange.error_code in (0, NULL):
            return
        steady = steady_bytes(exchange)
        if steady is not None and steady in self.steady:
            return
        request = self._body(exchange, False, is_member=True)
        if request is None:
            return
        response = self._body(exchange, True, is_member=True)
        if doubt_of(exchange):
            request, response = blanked(request), blanked(response)
        name = exchange.group_protocol[1]
        is_known = response is not None
        rows = cast(MemberRows, self.sink.tables["members"])
        before = rows.all_text_size()
        count: i64 = 0
        for event in memberships(int(exchange.api_key), request, response, name, is_known):
            rows.add(exchange, event)
            count += 1
        self.sink.note_made(MEMBER_BYTES * count + rows.all_text_size() - before)
        if count == 0 and steady is not None and left_out_of(request) + left_out_of(response) == 0:
            if len(self.steady) >= STEADY_LIMIT:
                self.steady.clear()
            self.steady.add(steady)
        if not self.detail.makes_bodies:
            for side, body in (("request", request), ("response", response)):
                left_out = left_out_of(body)
                if left_out > 0:
                    text = f"{left_out} values of the {side} not among the members"
                    self._report(exchange, side, "decoded-limit", text)

    def write(self, exchange: Exchange) -> None:
        """Add the row of an exchange in `bodies`."""
        request = self._text(exchange, "request")
        response = self._text(exchange, "response")
        cast(BodyRows, self.sink.tables["bodies"]).add(exchange, request, response)
        self.sink.note_made(len(request) + len(response))

    def _text(self, exchange: Exchange, side: str) -> str:
        """Return a body as JSON; problems report oddities in it."""
        regular = None if self.has_payload else self._regular_text(exchange, side == "response")
        if regular is not None:
            return regular
        body = self._body(exchange, side == "response")
        self._report_nulls(exchange, side, body)
        value_budget = ValueBudget(self.decoded_limit)
        is_shaped = not exchange.dialect and doubt_of(exchange) == BELIEVED
        text = body_json(body, self.has_payload, value_budget, is_shaped)
        count = int(value_budget.left_out) + left_out_of(body)
        if count > 0:
            self._report(exchange, side, "decoded-limit", f"{count} values not in the {side}")
        return text

    def _regular_text(self, exchange: Exchange, is_response: bool) -> str | None:
        """Return a body as JSON, written from its bytes; None where it has to be decoded."""
        data = whole_frame(exchange, is_response)
        if not data or exchange.dialect or doubt_of(exchange) != BELIEVED:
            return None
        return regular_text(
            int(exchange.api_key), int(exchange.api_version), data, is_response,
            partial(topic_names, exchange.partitions, self.names), self.decoded_limit,
            self.unpacking,
        )  # fmt: skip

    def _body(self, exchange: Exchange, is_response: bool, is_member: bool = False) -> Body | None:
        """Return a body in full; None if absent or not decodable (with a problem).

        A body with a hole is not decoded. With `is_member` as far as `memberships` reads it, else
        with its records as shown, unless the exchange is in doubt.
        """
        data = whole_frame(exchange, is_response)
        if not data:
            return None
        asked = exchange.request_frame
        key, version = int(exchange.api_key), int(exchange.api_version)
        request = b"" if asked is None else asked.data
        try:
            if exchange.dialect:
                dialect = int(exchange.dialect)
                return full_old_body(
                    dialect, key, data, is_response, request, self.decoded_limit,
                    self.unpacking,
                )  # fmt: skip
            if is_member:
                body = member_body(
                    key, version, data, is_response, exchange.group_protocol,
                    self.decoded_limit,
                )  # fmt: skip
                return cast(Body, guarded(body, doubt_of(exchange)))
            names = topic_names(exchange.partitions, self.names) if key in WITH_RECORDS else None
            doubt = doubt_of(exchange)
            shape = None if doubt != BELIEVED else with_headers if self.has_payload else with_sizes
            body = full_body(
                key, version, data, is_response, request, names, exchange.group_protocol,
                self.decoded_limit, self.unpacking, shape,
            )  # fmt: skip
        except DecodeError:
            return None
        shown: Body = guarded(body, doubt)
        return shown

    def _report_nulls(self, exchange: Exchange, side: str, body: Body | None) -> None:
        """Report nulls that the layout does not allow; only the full decode sees them."""
        if body is None or UNEXPECTED_NULLS not in body:
            return
        places = body[UNEXPECTED_NULLS]
        first = f"{places[0]['path']}, byte {places[0]['offset']}"
        more = f", and {len(places) - 1} more" if len(places) > 1 else ""
        text = f"null in the {side} at {first}{more}"
        self._report(exchange, side, "unexpected-null", text)

    def _report(self, exchange: Exchange, side: str, kind: str, text: str) -> None:
        """Report a problem with the request or the response of an exchange."""
        is_answer = side == "response"
        time = exchange.response_start if is_answer else exchange.request_start
        packet = exchange.response_packet if is_answer else exchange.request_packet
        self.sink.report(exchange, kind, text, time, packet, 0)


def whole_frame(exchange: Exchange, is_response: bool) -> bytes:
    """A frame of an exchange; empty if it was not seen, or not all of it."""
    frame = exchange.response_frame if is_response else exchange.request_frame
    return b"" if frame is None or frame.missing else frame.data


def steady_bytes(exchange: Exchange) -> tuple[bytes, bytes, bytes] | None:
    """Heartbeat and response without correlation ids; None if one was not seen whole."""
    request, response = exchange.request_frame, exchange.response_frame
    if int(exchange.api_key) not in GROUP_HEARTBEATS or exchange.dialect or request is None:
        return None
    if response is None or request.missing or response.missing or exchange.outcome != ANSWERED:
        return None
    if len(request.data) + len(response.data) > STEADY_BYTES or doubt_of(exchange) != BELIEVED:
        return None
    return (
        request.data[:CORRELATION_AT],
        request.data[CORRELATION_END:],
        response.data[RESPONSE_BODY_AT:],
    )


def left_out_of(body: Body | None) -> int:
    """Number of values of a body that had no room."""
    if body is None or LEFT_OUT not in body:
        return 0
    count: int = body[LEFT_OUT]["count"]
    return count
