"""Decodes embedded contents of bodies: subscriptions, assignments, forwarded requests, metrics.

Undecodable contents become ``{"undecoded": size, "error": text}``; the body around them stays. A
field that may contain a forwarded credential is never left as bytes.
"""

from ipaddress import ip_address
from typing import Any, Final

from kdissect.errors import DecodeError, InvalidValue
from kdissect.messages.group_protocols import ASSIGNMENT, SUBSCRIPTION, opened_member
from kdissect.messages.headers import (
    read_request_header,
    response_body_offset,
    response_layout_version,
)
from kdissect.messages.layout_choice import REQUEST, RESPONSE, Body, decode_body, decode_message
from kdissect.messages.memberships import JOIN_GROUP, SYNC_GROUP
from kdissect.messages.redaction import redacted
from kdissect.messages.telemetry import decode_metrics
from kdissect.protocol.apis import find_api
from kdissect.protocol.primitives import read_int16

DESCRIBE_GROUPS: Final = 15
ENVELOPE: Final = 58
PUSH_TELEMETRY: Final = 72
ADDRESS_SIZES: Final = (4, 16)
NEED_REQUEST: Final = frozenset({JOIN_GROUP, ENVELOPE})  # responses read with their request's body

# Protocol type and protocol name of a group; "" if unknown.
GroupProtocol = tuple[str, str]
NO_PROTOCOL: Final[GroupProtocol] = ("", "")


def open_body(
    key: int,
    body: Body,
    is_response: bool,
    request: Body | None = None,
    protocol: GroupProtocol = NO_PROTOCOL,
) -> None:
    """Replace the opaque fields of `body`, of API `key`, by their decoded contents.

    A push without metrics stays empty bytes. `request` is the decoded, not opened body of the
    request, if available: the answer in an Envelope can only be read with it, and a JoinGroup
    response below v7 has its protocol type there. `protocol` is the one that the group agreed on,
    which SyncGroup contains only from v5 on.
    """
    if key == JOIN_GROUP:
        open_join(body, is_response, request or {})
    elif key == SYNC_GROUP:
        open_sync(body, is_response, protocol)
    elif key == DESCRIBE_GROUPS and is_response:
        for group in body["groups"] or ():
            open_described(group)
    elif key == ENVELOPE and is_response:
        inner = (request or {}).get("request_data") or b""
        body["response_data"] = opened(body["response_data"], decode_forwarded_answer, inner)
    elif key == ENVELOPE:
        body["request_data"] = opened(body["request_data"], decode_forwarded)
        body["request_principal"] = opened(body["request_principal"], decode_principal)
        body["client_host_address"] = address_text(body["client_host_address"])
    elif key == PUSH_TELEMETRY and not is_response and body["metrics"]:
        body["metrics"] = opened(body["metrics"], decode_metrics, body["compression_type"])


def opened(data: bytes | None, decode: Any, *arguments: Any) -> Any:
    """Apply `decode` to `data`; on failure return its size and the error; None stays."""
    if data is None:
        return None
    try:
        return decode(data, *arguments)
    except DecodeError as error:
        return {"undecoded": len(data), "error": str(error)}


def open_join(body: Body, is_response: bool, request: Body) -> None:
    """Decode subscriptions; in a response only the leader's has any."""
    entries = body.get("members" if is_response else "protocols")
    kind = body.get("protocol_type") or request.get("protocol_type")
    for entry in entries or ():
        name = body.get("protocol_name") if is_response else entry["name"]
        entry["metadata"] = opened_member(entry["metadata"], SUBSCRIPTION, kind, name)


def open_sync(body: Body, is_response: bool, protocol: GroupProtocol) -> None:
    """Decode assignments: the leader's request has all, each response one."""
    kind = body.get("protocol_type") or protocol[0]
    name = body.get("protocol_name") or protocol[1]
    for entry in [body] if is_response else body["assignments"] or ():
        entry["assignment"] = opened_member(entry["assignment"], ASSIGNMENT, kind, name)


def open_described(group: Body) -> None:
    names = (group["protocol_type"], group["protocol_data"])
    for member in group["members"] or ():
        member["member_metadata"] = opened_member(member["member_metadata"], SUBSCRIPTION, *names)
        member["member_assignment"] = opened_member(member["member_assignment"], ASSIGNMENT, *names)


def decode_forwarded(data: bytes) -> Body:
    """Decode a request in an Envelope (KIP-590): header and body, no size. Raises DecodeError."""
    header = read_request_header(data)
    if header.api_key == ENVELOPE:
        raise InvalidValue("an Envelope in an Envelope", offset=0, data=data, length=2)
    body = decode_body(header.api_key, header.api_version, REQUEST, data, header.body_offset)
    open_body(header.api_key, body, is_response=False)
    name = find_api(int(header.api_key)).name
    return {
        "size": len(data),
        "api": name,
        "api_version": header.api_version,
        "correlation_id": header.correlation_id,
        "body": redacted(name, REQUEST, body),
    }


def decode_forwarded_answer(data: bytes, request: bytes) -> Body:
    """Decode the answer to the forwarded `request`; raises DecodeError."""
    if not request:
        raise InvalidValue("the request was not captured", data=data)
    header = read_request_header(request)
    key, version = header.api_key, header.api_version
    if key == ENVELOPE:
        raise InvalidValue("an Envelope in an Envelope", offset=0, data=data)
    offset = response_body_offset(key, version, data)
    version = response_layout_version(key, version, data)
    body = decode_body(key, version, RESPONSE, data, offset)
    open_body(key, body, is_response=True)
    name = find_api(int(key)).name
    body = redacted(name, RESPONSE, body)
    return {"size": len(data), "api": name, "api_version": version, "body": body}


def address_text(data: bytes | None) -> str | bytes | None:
    """Format the 4 or 16 bytes of an IP address; other bytes, and null, stay as they are."""
    return str(ip_address(data)) if data and len(data) in ADDRESS_SIZES else data


def decode_principal(data: bytes) -> Body:
    """Decode the sender of a forwarded request, as written by Kafka's own principal builder."""
    version, offset = read_int16(data, 0)
    body = decode_message("embedded", "DefaultPrincipalData", int(version), data, int(offset))
    return {"size": len(data), "version": int(version), **body}
