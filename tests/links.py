"""Links of HTML pages on disk."""

import json
import re
from collections.abc import Sequence
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


def data_of(page: str) -> dict[str, Any]:
    """Return the values for which a page has a script; none if it has no script of its own."""
    found = re.search(r' id="data">(.*?)</script>', page, re.DOTALL)
    data: dict[str, Any] = json.loads(found[1]) if found else {}
    return data


class Links(HTMLParser):
    """Addresses and targets of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.addresses: set[str] = set()
        self.targets: set[str] = set()
        text = page.read_text(encoding="utf-8")
        self.feed(text)
        data = data_of(text)
        self._add_runs(page, data.get("runs", ()), data.get("above", ""))

    def _add_runs(self, page: Path, runs: Sequence[dict[str, Any]], above: str = "") -> None:
        """Add what scripts make of the runs that they compare, or list ``above`` the scales."""
        for run in runs:
            if page.stem == "compare":
                self.targets.add(run["id"])
                self.addresses.add(run["page"])
            else:
                self.targets.add(run["run"])
                self.addresses.add(f"{above}{run['scale']}/records/{run['run']}.json")
        for scale in {run["scale"] for run in runs if "scale" in run}:
            pages = page.parent / above / scale / "pages" / "list.js"
            names = json.loads(pages.read_text()[len("addPages(") : -3]) if pages.exists() else ()
            self.addresses |= {f"{above}{scale}/pages/{name}.html" for name in names}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("href", "src", "xlink:href"):
                self.addresses.add(value)
            elif value and name in ("id", "name"):
                self.targets.add(value)


def dead_links(report: Path) -> list[str]:
    """Follow the links of a report and of the pages that it leads to, but none to other sites."""
    read, waiting, dead = cache(Links), [report], []
    for page in waiting:
        for address in sorted(read(page).addresses):
            parts = urlsplit(address)
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if parts.scheme in ("http", "https", "data"):
                continue
            if not target.is_file():
                dead.append(f"{page.name}: {address}")
            elif target.suffix == ".html":
                if target not in waiting:
                    waiting.append(target)
                if parts.fragment and parts.fragment not in read(target).targets:
                    dead.append(f"{page.name}: {address}")
    return dead
