"""Rows of the tables built from fully decoded bodies: `members` and `bodies`."""

from librt.strings import write_i64_le
from mypy_extensions import i64

from kdissect.exchanges.exchange import Exchange
from kdissect.messages.memberships import Membership
from kdissect.protocol.readers import NULL
from kdissect.tables.rows import Rows, api_code


class MemberRows(Rows):
    """Rows of `members`."""

    def add(self, x: Exchange, m: Membership) -> None:
        """Append one event of an exchange."""
        b = self.buffer
        client_id = x.client_id
        write_i64_le(b, x.capture)
        write_i64_le(b, x.connection_id)
        write_i64_le(b, x.exchange_id)
        write_i64_le(b, x.request_start)
        client_ids = self.column("client_id")
        write_i64_le(b, NULL if client_id is None else client_ids.index(client_id))
        write_i64_le(b, self.column("group_id").index_or_null(m.group_id))
        write_i64_le(b, self.column("member_id").index_or_null(m.member_id))
        write_i64_le(b, self.column("group_instance_id").index_or_null(m.group_instance_id))
        write_i64_le(b, int_or_null(m.generation))
        write_i64_le(b, self.column("event").index(m.event))
        write_i64_le(b, self.column("protocol").index_or_null(m.protocol))
        write_i64_le(b, NULL if m.is_leader is None else 1 if m.is_leader else 0)
        write_i64_le(b, self.column("subscription").index_or_null(m.subscription))
        write_i64_le(b, self.column("assignment").index_or_null(m.assignment))
        write_i64_le(b, self.column("reason").index_or_null(m.reason))
        write_i64_le(b, int_or_null(m.error_code))
        self.count += 1


class BodyRows(Rows):
    """Rows of `bodies`."""

    def add(self, x: Exchange, request: str, response: str) -> None:
        """Append the two bodies of an exchange as JSON; "" for a missing one."""
        b = self.buffer
        write_i64_le(b, x.capture)
        write_i64_le(b, x.connection_id)
        write_i64_le(b, x.exchange_id)
        write_i64_le(b, api_code(x))
        write_i64_le(b, x.api_version)
        write_i64_le(b, self.column("request").index_or_null(request))
        write_i64_le(b, self.column("response").index_or_null(response))
        self.count += 1


def int_or_null(value: int | None) -> i64:
    """`value`, or NULL for None."""
    return NULL if value is None else value
