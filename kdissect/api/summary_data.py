"""A summary with its findings as JSON data: what `kdissect FILE --json` prints."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kdissect.analysis.summary.summary import Summary
from kdissect.rules.finding import Finding
from kdissect.rules.finding_data import finding_data, iso_time
from kdissect.text.human import cut_all


def summary_data(
    summary: Summary,
    found: Sequence[Finding],
    files: Sequence[str] = (),
    options: Sequence[str] = (),
) -> dict[str, Any]:
    """Findings and summary; times are ISO 8601, commands have the files and options."""
    findings = [finding_data(one, files, options) for one in found]
    content = {"findings": findings, **cut_all(asdict(summary))}
    totals = content["totals"]
    for name in ("first_time", "last_time"):
        totals[name] = iso_time(totals.pop(f"{name}_ns"))
    return content
