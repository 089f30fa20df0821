"""docs/protocol.md: every supported API, record and variant, and its evidence."""

from collections.abc import Iterable

from kdissect.cli.protocol import first_release, header_versions
from kdissect.protocol.apis import APIS, VENDOR_APIS, VENDORS, ApiKey
from kdissect.protocol.specs import format_versions, message_name
from tools.coverage_protocol import HEADERS, RECORDS, VARIANTS, Layout, Proof, proofs, summary

HEAD = """\
# Protocol

Printed from the definitions and the evidence by `make coverage-protocol docs`; do not edit.
`kdissect protocol` shows the same table, `kdissect protocol Fetch 12` the fields of a layout.
What was there before Kafka 0.8 is in [old-protocols.md](old-protocols.md).

## What proves the layouts

A layout is one message in one version. **Vectors**: ten messages with known values that Kafka's
own classes wrote (releases 0.8.2 to 4.4); ten more that kio wrote and a few that kafka-python
wrote, where they have the layout. A test reads every one to its last byte and compares every value.
**Captures**: a message of a real broker or client in [captures/](../captures/README.md) is read to
its last byte.
"""
NOT_TOLD = """\
## What cannot be told

- Bodies of ConsumerGroupDescribe 0, ReadShareGroupStateSummary 0, EndQuorumEpoch 0 and
  OffsetCommit 0 that name nothing (no topics, no members) have the same bytes in both layouts.
  They count as the newest; the values are the same.
- Values of ConsumerGroupPartitionMetadata without topics, in the same way, between 3.5 and 3.6.
- Where a body fits the newest layout by accident, a null that this layout does not have speaks
  for the variant. A DelegationTokenRecord of 3.0 to 3.5 whose list of renewers reads as a
  requester's name stays with the newest.
- A response says neither its API nor its version: without its request it is only a size
  (`orphan`).

## What has a row but no layout

Requests with other keys, or with versions above those here, keep their row, client id and sizes;
`decode_status` is `unknown-api` or `unknown-version`, and nothing of the body is guessed.

Vendors' forks add keys of their own, and several use the same ones. Such a key has a vendor's
name, like `AutoMQ-CreateStreams`, only where the broker is known to be that vendor's: by the keys
that its last ApiVersions response **on the same connection**, before the request, offers. AutoMQ's
offers all of 501 to 512; Inkless's offers, between 500 and 999, just 500 and 501, 501 and 502, or
all three. Everywhere else, also where the capture begins behind that response, the name is
`api-501`.
`api_key` has the number in any case. The names:

"""


def protocol_page() -> str:
    known = proofs()
    lines = [HEAD, "| | layouts | by both | by vectors | by captures | by neither |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for kind, counts in summary().items():
        cells = " | ".join(str(count) for count in counts.values())
        lines.append(f"| {kind} | {sum(counts.values())} | {cells} |")
    neither = [str(layout) for layout, proof in known.items() if not (proof[1] or proof[2])]
    lines += ["", f"By neither: {', '.join(neither) or 'none'}."]
    lines += ["", "## APIs", "", *api_lines(known)]
    for title, kind in (("Headers", HEADERS), ("Records and embedded messages", RECORDS)):
        lines += ["", f"## {title}", "", *message_lines(known, kind)]
    lines += ["", "## Variants", "", *variant_lines(known), "", NOT_TOLD]
    for vendor, apis in VENDOR_APIS.items():
        names = ", ".join(f"{key} {name}" for key, name in apis.items())
        lines.append(f"- {VENDORS[vendor]}: {names}.")
    return "\n".join([*lines, ""])


def api_lines(known: dict[Layout, Proof]) -> list[str]:
    """A row for each API."""
    lines = [
        "`since`: the first release with the lowest and with the highest version. `unstable`: "
        "versions that brokers of these releases (`4.1+`: of all since) offer only with "
        "`unstable.api.versions.enable`. `headers`: "
        "versions of the request's and of the response's. The last columns: versions read from "
        "captures.",
        "",
        "| key | API | versions | since | unstable | flexible from | headers | kio "
        "| requests captured | responses captured |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for api in APIS.values():
        versions = range(api.lowest, api.highest + 1)
        flexible = str(api.first_flexible) if api.first_flexible >= 0 else "never"
        kio = [v for v in versions if "kio" in proof_of(known, api, "request", v).writers]
        captured = [
            version_text(v for v in versions if proof_of(known, api, side, v).captures)
            for side in ("request", "response")
        ]
        since = f"{first_release(api, api.lowest)}, {first_release(api, api.highest)}"
        unstable = api.definition().unstable_versions()
        cells = (api.key, api.name, f"{api.lowest}-{api.highest}", since, unstable, flexible,
                 header_versions(api), version_text(kio), *captured)  # fmt: skip
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return lines


def proof_of(known: dict[Layout, Proof], api: ApiKey, side: str, version: int) -> Proof:
    return known[Layout(message_name(api.name, side), version)]


def message_lines(known: dict[Layout, Proof], kind: str) -> list[str]:
    """A row for each message of a kind."""
    lines = ["| message | versions | kio | captured |", "|---|---|---|---|"]
    names = dict.fromkeys(layout.name for layout, proof in known.items() if proof.kind == kind)
    for name in names:
        proved = {
            layout.version: proof
            for layout, proof in known.items()
            if layout.name == name and proof.kind == kind
        }
        kio = version_text(v for v, proof in proved.items() if "kio" in proof.writers)
        captured = version_text(v for v, proof in proved.items() if proof.captures)
        lines.append(f"| {name} | {version_text(proved)} | {kio} | {captured} |")
    return lines


def variant_lines(known: dict[Layout, Proof]) -> list[str]:
    """A row for each layout that a release changed in place."""
    lines = [
        "Layouts of previews and betas, under a version whose bytes changed later. They are tried "
        "when the newest layout does not fit; the row or value says whose layout it was.",
        "",
        "| message | version | releases | kio | captured |",
        "|---|---|---|---|---|",
    ]
    for layout, proof in known.items():
        if proof.kind == VARIANTS:
            releases = ", ".join(layout.releases.split())
            kio = "yes" if "kio" in proof.writers else ""
            captured = "yes" if proof.captures else ""
            lines.append(f"| {layout.name} | {layout.version} | {releases} | {kio} | {captured} |")
    return [*lines, "", *foreign_lines()]


def foreign_lines() -> list[str]:
    """The layouts of no Kafka release."""
    lines = ["Of no Kafka release, tried in the same way (tests write them, no vectors do):", ""]
    for api in APIS.values():
        for role, spec in api.definition().variants:
            if spec.is_foreign:
                name, versions = message_name(api.name, role), version_text(spec.versions)
                lines.append(f"- {name} {versions}, `{spec.releases[0]}`")
    return lines


def version_text(versions: Iterable[int]) -> str:
    """Versions as ranges; nothing for none."""
    text = format_versions(versions, newest=-1)
    return "" if text == "none" else text
