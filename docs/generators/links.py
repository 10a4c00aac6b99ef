"""Check the built site: every internal link leads to a page and a place on it, and no page loads from a host.

`python -m docs.generators.links build/docs` names each fault, with exit code 1.
"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""Elements with which a page loads something."""


class Page(HTMLParser):
    """The links of a page, what it loads, and the places that a link may lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: dict[str, None] = {}
        self.loads: dict[str, None] = {}
        self.places: set[str] = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the links, loads and places of an element."""
        found = {name: value for name, value in attrs if value is not None}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links[found["href"]] = None
        if tag in LOADS and LOADS[tag] in found:
            self.loads[found[LOADS[tag]]] = None


@cache
def read(path: Path) -> Page:
    """Return a page of the site."""
    return Page(path.read_text(encoding="utf-8"))


def faults(site: Path) -> list[str]:
    """Return a sentence for each link that leads nowhere, and for each element that loads from a host."""
    found = []
    pages = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts)
    for path in pages:
        page, name = read(path), path.relative_to(site)
        for link in page.links | page.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads and parts.scheme != "data":
                    found.append(f"{name} loads {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                found.append(f"{name} links to {link}, which does not exist")
            elif target.suffix == ".html" and unquote(parts.fragment) not in read(target).places:
                found.append(f"{name} links to {link}, and the page has no such place")
    return found


if __name__ == "__main__":
    sentences = faults(Path(sys.argv[1]))
    print("\n".join(sentences), end="\n" if sentences else "")
    sys.exit(bool(sentences))
