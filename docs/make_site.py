"""What mkdocs.yml cannot say: the order of the manual is that of docs/index.md, and some pages live outside docs/."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
ROOT = DOCS.parent
OUTSIDE = {
    "changelog.md": ROOT / "CHANGELOG.md",
    "contributing.md": ROOT / "CONTRIBUTING.md",
    "benchmarks.md": ROOT / "benchmarks" / "README.md",
}
ASIDE = "---\nsearch: {boost: 0.3}\n---\n\n"  # what the manual says is found before it
LINK = re.compile(r"(?<=\]\()(?P<file>[^\s)#:]+)(?=[#)])")


def on_config(config: MkDocsConfig) -> None:
    config.nav = navigation((DOCS / "index.md").read_text("utf-8"))


def on_files(files: Files, config: MkDocsConfig) -> None:
    from mkdocs.structure.files import File

    for name, path in OUTSIDE.items():
        files.append(File.generated(config, name, content=ASIDE + path.read_text("utf-8")))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return linked(markdown, OUTSIDE.get(page.file.src_uri, DOCS / page.file.src_uri))


def navigation(index: str) -> list[object]:
    """The pages that the index lists under each heading."""
    sections: list[object] = [{"Home": "index.md"}]
    for section in re.split(r"^## ", index, flags=re.M)[1:]:
        pages = re.findall(r"^- \[([^]]+)\]\(([^)]+)\)", linked(section, DOCS / "index.md"), flags=re.M)
        if pages:
            sections.append({section.partition("\n")[0]: [{title: page} for title, page in pages]})
    return sections


def linked(markdown: str, source: Path) -> str:
    """The text of a page with links to where the site has what they lead to."""
    names = {path: name for name, path in OUTSIDE.items()}

    def place(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(source.parent / link["file"]))
        return names.get(target) or (os.path.relpath(target, DOCS) if target.exists() else link["file"])

    return LINK.sub(place, markdown)
