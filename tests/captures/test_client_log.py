"""The recorder's parsing of Java clients' logs and of requests at its relay."""

from pathlib import Path

from tools.record.client_log import ClientRequest, read_client_logs
from tools.record.relay import Header, read_header

SENT = (
    "2026-11-21T23:40:59.912+0000 [kafka-producer-network-thread | w] DEBUG "
    "org.apache.kafka.clients.NetworkClient - [Producer clientId=w] Sending PRODUCE request with "
    "header RequestHeader(apiKey=PRODUCE, apiVersion=13, clientId=w, correlationId={id}, "
    "headerVersion=2) and timeout 30000 to node 1: {{acks=-1}}"
)
RECEIVED = (
    "2026-11-21T23:41:00.007+0000 [kafka-producer-network-thread | w] DEBUG "
    "org.apache.kafka.clients.NetworkClient - [Producer clientId=w] Received PRODUCE response from "
    "node 1 for request with header RequestHeader(apiKey=PRODUCE, apiVersion=13, clientId=w, "
    "correlationId={id}, headerVersion=2): ProduceResponseData(responses=[])"
)
SENT_MS = 1_795_304_459_912


def test_requests_of_all_logs_are_listed_with_their_responses(tmp_path: Path) -> None:
    lines = [SENT.format(id=8), "\tat somewhere", RECEIVED.format(id=8), SENT.format(id=9)]
    (tmp_path / "java-0.log").write_text("\n".join(lines))
    (tmp_path / "java-1.log").write_text("something else\n")
    assert read_client_logs(tmp_path) == [
        ClientRequest("w", "PRODUCE", 13, 8, SENT_MS, SENT_MS + 95),
        ClientRequest("w", "PRODUCE", 13, 9, SENT_MS, None),
    ]


def test_the_relay_attributes_each_request_to_its_client() -> None:
    body = bytes.fromhex("0000 000d 0000002a 0004") + b"java" + b"\x00rest"
    assert read_header(len(body).to_bytes(4, "big") + body) == Header(0, 42, "java")


def test_a_client_without_a_name_has_an_empty_one() -> None:
    body = bytes.fromhex("0003 000d 00000001 ffff")
    assert read_header(len(body).to_bytes(4, "big") + body) == Header(3, 1, "")
