"""Network events, losses of the capture, and the account of its bytes, as lines."""

from typing import Any

from kdissect.analysis.summary.network import Network
from kdissect.text.escape import escaped
from kdissect.text.human import agreeing, count, counted, duration, share, size


def balance_lines(balance: dict[str, Any]) -> list[str]:
    """Account of the captured bytes; reports when they do not add up."""
    payload = balance.get("payload_bytes", 0)
    parts = {name: balance.get(f"{name}_bytes", 0) for name in ("framed", "skipped", "duplicate")}
    own, encrypted = balance.get("tls_bytes", 0), balance.get("encrypted_bytes", 0)
    if own or encrypted:
        parts |= {"TLS overhead": own, "encrypted": encrypted}
    terms = " + ".join(f"{count(number)} {name}" for name, number in parts.items())
    lines = [f"TCP payload {counted(payload, 'byte')} = {terms}"]
    rest = payload - sum(parts.values())
    if rest:
        lines[0] += f" + {count(rest)} UNACCOUNTED"
    connections = balance.get("encrypted_connections", 0)
    if connections:
        lines.append(
            f"encrypted: {counted(connections, 'TLS connection')}; --keylog FILE decrypts "
            f"{agreeing(connections, 'it', 'them')}"
        )
    missing = balance.get("missing_bytes", 0)
    if missing:
        lines.append(f"missing from the capture: {counted(missing, 'byte')}")
    reasons = balance.get("packets_by_reason") or {}
    left = [f"{count(number)} {escaped(reason)}" for reason, number in reasons.items() if number]
    if left:
        lines.append(f"packets without TCP: {', '.join(left)}")
    return lines


def network_lines(network: Network) -> list[str]:
    """Network events and losses of the capture, one line each when present."""
    rtt, again = network.round_trip, network.retransmitted_segments
    items = []
    if rtt.p50_ns is not None:
        items.append(f"round trip {duration(rtt.p50_ns)} p50, {duration(rtt.max_ns)} max")
    if again:
        kinds = {"fast": network.fast_retransmits, "spurious": network.spurious_retransmits}
        parts = [share(again, network.packets)]
        parts += [f"{count(number)} {kind}" for kind, number in kinds.items() if number]
        parts.append(f"{size(network.network_lost_bytes)} lost")
        items.append(f"{counted(again, 'segment')} retransmitted ({', '.join(parts)})")
    if network.zero_windows:
        closed = f" in {duration(network.zero_window_ns)}" if network.zero_window_ns else ""
        items.append(f"{counted(network.zero_windows, 'zero window')}{closed}")
    lines = [f"network: {'; '.join(items)}"] if items else []
    lost = _capture_losses(network)
    return [*lines, f"capture: {'; '.join(lost)}"] if lost else lines


def _capture_losses(network: Network) -> list[str]:
    missing, items = network.missing_bytes, []
    if missing:
        parts = {
            "dropped by capture": network.capture_lost_bytes,
            "cut off by snaplen": network.cut_bytes,
            "lost by capture or network": missing - network.capture_lost_bytes - network.cut_bytes,
        }
        why = ", ".join(f"{size(part)} {name}" for name, part in parts.items() if part > 0)
        items.append(
            f"{size(missing)} missing ({share(missing, missing + network.payload_bytes)}): {why}"
        )
    if network.duplicate_packets:
        items.append(f"{counted(network.duplicate_packets, 'duplicate packet')}")
    return items
