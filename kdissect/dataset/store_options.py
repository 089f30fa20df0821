"""Settings of stores as `deltalake` takes them, from what the user gave in a URI."""

import re
from typing import Final
from urllib.parse import parse_qs, unquote

from kdissect.dataset.storage import URI, is_uri, reached_by
from kdissect.errors import DatasetError

# Arrow's names in a URI, and those of the package `object_store` for S3.
NAMES: Final = {"region": "AWS_REGION", "endpoint_override": "AWS_ENDPOINT_URL"}
# deltalake 1.6 decodes paths twice, takes \\ for /, and refuses bytes that are no text.
UNFIT: Final = re.compile(r"[\x00-\x1f\x7f\\]|%[0-9A-Fa-f]{2}|[\ud800-\udfff]")
SCHEMES: Final = {"gcs": "gs"}  # which differ there


def delta_uri(location: str) -> str:
    """A location in the form of `deltalake`; raises DatasetError for one that it cannot open.

    >>> delta_uri("gcs://bucket/kafka")
    'gs://bucket/kafka'
    """
    if UNFIT.search(location):
        raise DatasetError(
            f"{location}: Delta tables cannot be in a directory whose path has a backslash, a "
            "control character or an escape like %25: rename it"
        )
    scheme, separator, rest = location.partition("://")
    return f"{SCHEMES.get(scheme, scheme)}{separator}{rest}"


def delta_options(location: str) -> dict[str, str]:
    """Settings to reach the store of a location; what is not given comes from the environment."""
    if not is_uri(location):
        return {}
    (given,) = reached_by([location]) or (location,)
    match = URI.match(given)
    if match is None:
        return {}
    asked = {name: values[-1] for name, values in parse_qs(match["options"] or "").items()}
    user, _, _ = match["host"].rpartition("@")
    name, _, password = user.partition(":")
    made: dict[str, str] = {}
    if match["scheme"] == "s3":
        made = s3_options(asked)
        if name and password:
            made |= {"AWS_ACCESS_KEY_ID": unquote(name), "AWS_SECRET_ACCESS_KEY": unquote(password)}
    elif match["scheme"] in ("gs", "gcs") and name == "anonymous":
        made = {"GOOGLE_SKIP_SIGNATURE": "true"}
    elif password:
        made = {"AZURE_STORAGE_ACCOUNT_KEY": unquote(password)}
    return made


def s3_options(asked: dict[str, str]) -> dict[str, str]:
    """Settings of S3, from the options of a URI."""
    made = {NAMES[name]: value for name, value in asked.items() if name in NAMES}
    scheme = asked.get("scheme", "https")
    if "AWS_ENDPOINT_URL" in made and "://" not in made["AWS_ENDPOINT_URL"]:
        made["AWS_ENDPOINT_URL"] = f"{scheme}://{made['AWS_ENDPOINT_URL']}"
    if scheme == "http":
        made["AWS_ALLOW_HTTP"] = "true"
    return made
