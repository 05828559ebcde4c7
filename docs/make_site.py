"""What mkdocs.yml cannot say: the order of the manual is that of docs/index.md, and some files live outside docs/.

Beside the pages, the site has their Markdown, and for language models llms.txt (https://llmstxt.org), which lists them,
and llms-full.txt, which has them all.
"""

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
SCHEMAS = {f"schemas/{path.name}": path for path in sorted((ROOT / "mcp_tape" / "schemas").glob("*.json"))}
# How far up search lists a page: definitions and remedies first, then tests and CI, last the reference and others.
BOOSTS = {"concepts.md": 3.0, "troubleshooting.md": 2.0, "testing.md": 1.7, "ci.md": 1.5}
EXAMPLES = "examples/"  # search leaves them out
BOOST_OF_REFERENCE, BOOST_OF_OTHERS = 0.5, 0.3
LINK = re.compile(r"(?<=\]\()(?P<file>[^\s)#:]+)(?=[#)])")


def on_config(config: MkDocsConfig) -> None:
    config.nav = navigation((DOCS / "index.md").read_text("utf-8"))


def on_files(files: Files, config: MkDocsConfig) -> None:
    from mkdocs.structure.files import File

    for name, path in (OUTSIDE | SCHEMAS).items():
        files.append(File.generated(config, name, content=path.read_text("utf-8")))


def on_post_build(config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    for name, text in for_models().items():
        (site / name).write_text(text, "utf-8")


def for_models() -> dict[str, str]:
    """The files for language models: the Markdown of each page, a list of them, and all in one."""
    index = linked((DOCS / "index.md").read_text("utf-8"), DOCS / "index.md")
    title, first, *_ = index.split("\n\n")
    quoted = first.replace("\n", "\n> ")
    listed = [f"{title}\n\n> {quoted}\n\nAll pages in one file: [llms-full.txt](llms-full.txt)\n"]
    texts = {}
    for section in re.split(r"^## ", index, flags=re.M)[1:]:
        heading, _, body = section.partition("\n")
        entries = re.findall(r"^- .*(?:\n  .*)*", body, flags=re.M)
        listed.append(f"## {heading}\n\n" + "\n".join(entries) + "\n")
        for page in re.findall(r"^- \[[^]]+\]\(([^)]+)\)", body, flags=re.M):
            source = OUTSIDE.get(page, DOCS / page)
            texts[page] = linked(source.read_text("utf-8"), source)
    return texts | {"llms.txt": "\n".join(listed), "llms-full.txt": "\n\n".join(texts.values())}


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    page.meta["search"] = {"boost": boost(page.file.src_uri), "exclude": page.file.src_uri.startswith(EXAMPLES)}
    return linked(markdown, OUTSIDE.get(page.file.src_uri, DOCS / page.file.src_uri))


def navigation(index: str) -> list[object]:
    """The pages that the index lists under each heading."""
    sections: list[object] = [{"Home": "index.md"}]
    for section in re.split(r"^## ", index, flags=re.M)[1:]:
        pages = re.findall(r"^- \[([^]]+)\]\(([^)]+)\)", linked(section, DOCS / "index.md"), flags=re.M)
        if pages:
            sections.append({section.partition("\n")[0]: [{title: page} for title, page in pages]})
    return sections


def boost(page: str) -> float:
    index = (DOCS / "index.md").read_text("utf-8")
    is_reference = f"]({page})" in index.partition("\n## Reference\n")[2]
    return BOOST_OF_OTHERS if page in OUTSIDE else BOOST_OF_REFERENCE if is_reference else BOOSTS.get(page, 1.0)


def linked(markdown: str, source: Path) -> str:
    """The text of a page with links to where the site has what they lead to."""
    names = {path: name for name, path in (OUTSIDE | SCHEMAS).items()}

    def place(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(source.parent / link["file"]))
        return names.get(target) or (os.path.relpath(target, DOCS) if target.exists() else link["file"])

    return LINK.sub(place, markdown)
