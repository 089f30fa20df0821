"""The documentation site: resources that would load from the network, and links out of docs/."""

from pathlib import Path

import pytest

from kdissect.cli.program import COMMANDS
from tools.site.__main__ import DOCS, LOADS, loaded, without_outside, write_commands


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://unpkg.com/x"></script>',
        "<script async src=//cdn.example/x.js>",
        '<img alt="x" src="http://example.org/x.png">',
        '<link rel="stylesheet" href="https://fonts.example/css">',
        "body { background: url(https://example.org/x) }",
        '@import "https://example.org/x.css";',
        '<pre class="mermaid">',
    ],
)
def test_content_loaded_from_the_network_is_found(text: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f"<p>{text}</p>")
    assert len(loaded(tmp_path)) == 1


@pytest.mark.parametrize(
    "text",
    [
        '<a href="https://kafka.apache.org">',
        '<script src="assets/x.js">',
        '<link rel="canonical" href="https://example.org/">',
        "url(data:image/svg+xml;base64,AA)",
        '<script>var x = "https://example.org"</script>',
    ],
)
def test_links_and_own_files_load_nothing(text: str) -> None:
    assert LOADS.search(text) is None


def test_links_out_of_the_documentation_become_text_and_must_be_there() -> None:
    page = DOCS / "index.md"
    assert without_outside("[a](../README.md) [b](live.md#x)", page) == "a [b](live.md#x)"
    with pytest.raises(SystemExit, match=r"docs/index\.md: no \.\./nothing\.md"):
        without_outside("[a](../nothing.md)", page)


def test_every_command_has_a_page(tmp_path: Path) -> None:
    write_commands(tmp_path / "commands")
    names = {path.stem for path in (tmp_path / "commands").glob("*.md")}
    assert names == {*COMMANDS, "index"}
    assert "--where" in (tmp_path / "commands" / "latency.md").read_text()
