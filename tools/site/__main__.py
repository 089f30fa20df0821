"""Builds the documentation as a site in build/site/html: ``python -m tools.site MKDOCS``.

Pages of docs/ are staged with a page for each command, printed from the program. Links to files
outside docs/ are checked here and become text, as the site does not have these files; all others
are checked by MkDocs, strictly. Afterwards no page may load anything from the network.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from kdissect.cli.program import TITLES

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
BUILD: Final = ROOT / "build" / "site"
HTML: Final = BUILD / "html"
LINK: Final = re.compile(r"\[([^\[\]]*)\]\((\.\./[^)#\s]+|[^)#\s]*/\.\./[^)#\s]+)(#[^)\s]*)?\)")
# Markup that makes a browser load a resource whose address is outside the site.
LOADS: Final = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=[\"']?(?:https?:)?//"
    r"|<link\b(?![^>]*rel=[\"']?canonical)[^>]*\bhref=[\"']?(?:https?:)?//"
    r"|url\([\"']?(?:https?:)?//|@import\s+[\"'](?:https?:)?//"
    r"|class=[\"']?mermaid",
    re.IGNORECASE,
)
CONFIG: Final = """\
site_name: kdissect
docs_dir: docs
site_dir: html
use_directory_urls: false
strict: true
theme:
  name: material
  font: false
  features: [navigation.indexes, navigation.top, content.code.copy, search.highlight]
  palette:
    - media: "(prefers-color-scheme: light)"
      scheme: default
    - media: "(prefers-color-scheme: dark)"
      scheme: slate
extra:
  generator: false
plugins: [search]
markdown_extensions:
  - attr_list
  - tables
  - pymdownx.superfences
  - toc:
      permalink: true
      slugify: !!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower}}
validation:
  omitted_files: ignore
  absolute_links: warn
  unrecognized_links: warn
  anchors: warn
"""


def main() -> None:
    """Stage, build, check."""
    mkdocs = Path(sys.argv[1]).absolute()
    shutil.rmtree(BUILD / "docs", ignore_errors=True)
    shutil.copytree(DOCS, BUILD / "docs")
    for page in sorted((BUILD / "docs").rglob("*.md")):
        origin = DOCS / page.relative_to(BUILD / "docs")
        page.write_text(without_outside(page.read_text("utf-8"), origin), "utf-8")
    write_commands(BUILD / "docs" / "commands")
    (BUILD / "mkdocs.yml").write_text(CONFIG)
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run([mkdocs, "build", "--quiet", "--strict"], cwd=BUILD, check=True, env=quiet)
    if loads := loaded(HTML):
        sys.exit("the site loads from the network:\n" + "\n".join(loads))
    pages = sum(1 for _ in HTML.rglob("*.html"))
    print(f"{pages} pages in {HTML}: python -m http.server -b 127.0.0.1 -d {HTML}")


def without_outside(text: str, page: Path) -> str:
    """The page with links to files outside docs/ as text; exits where there is no such file."""

    def plain(match: re.Match[str]) -> str:
        target = (page.parent / match[2]).resolve()
        if not target.exists():
            sys.exit(f"{page.relative_to(ROOT)}: no {match[2]}")
        return match[0] if target.is_relative_to(DOCS) else match[1]

    return LINK.sub(plain, text)


def write_commands(directory: Path) -> None:
    """A page for each command, made from its section in command-line.md, and a list."""
    directory.mkdir()
    listed = ["# Commands", ""]
    text = (DOCS / "command-line.md").read_text("utf-8")
    for section in text.split("\n## kdissect ")[1:]:
        name, _, body = section.partition("\n")
        body = body.replace("](", "](../").replace("\n### ", "\n## ")
        (directory / f"{name}.md").write_text(f"# kdissect {name}\n{body}", "utf-8")
        listed.append(f"- [{name}]({name}.md): {TITLES[name]}")
    (directory / "index.md").write_text("\n".join(listed) + "\n", "utf-8")


def loaded(directory: Path) -> list[str]:
    """External resources that pages and styles load."""
    return [
        f"{path.relative_to(directory)}: {match[0]}"
        for path in sorted(directory.rglob("*"))
        if path.suffix in (".html", ".css")
        for match in LOADS.finditer(path.read_text("utf-8"))
    ]


if __name__ == "__main__":
    main()
