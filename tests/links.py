"""Links of HTML pages on disk."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Links(HTMLParser):
    """Addresses and targets of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.addresses: set[str] = set()
        self.targets: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("href", "src", "xlink:href"):
                self.addresses.add(value)
            elif value and name in ("id", "name"):
                self.targets.add(value)


def dead_links(report: Path) -> list[str]:
    """Follow the links of a report and of the pages that it leads to, but none to other sites."""
    pages: dict[Path, Links] = {}
    waiting, dead = [report], []
    while waiting:
        page = waiting.pop()
        pages[page] = Links(page)
        for address in sorted(pages[page].addresses):
            parts = urlsplit(address)
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if parts.scheme in ("http", "https", "data"):
                continue
            if not target.is_file():
                dead.append(f"{page.name}: {address}")
            elif target.suffix == ".html":
                if target not in pages and target not in waiting:
                    waiting.append(target)
                known = pages.get(target) or Links(target)
                if target.stem == "compare":  # reads what follows # as the name of a run
                    known.targets |= {file.stem for file in target.parent.glob("*.html")}
                if parts.fragment and parts.fragment not in known.targets:
                    dead.append(f"{page.name}: {address}")
    return dead
