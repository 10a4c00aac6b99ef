"""Links from names of scenarios and keys in the text to their generated pages; the pages stay plain Markdown."""

from __future__ import annotations

from functools import cache
from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from scenarios.schema.loader import library_names
from scenarios.schema.schema_keys import schema_keys

names = cache(library_names)


@cache
def page_of(name: str) -> tuple[str, str] | None:
    """Return the page of a scenario of the library or of a dotted key, and the place on it; None for other names."""
    if name in dict(names()):
        return f"generated/gallery/{name}", ""
    if "." not in name or name not in schema_keys() or name.startswith("learning.downlink"):
        return None
    is_section = any(key.startswith(f"{name}.") for key in schema_keys())
    section = name if is_section else name.rpartition(".")[0]
    return f"generated/keys/{section.partition('.')[0]}", f"#{nodes.make_id(section)}"


class NamesToPages(SphinxPostTransform):
    """Make a link of each name in code type that has a page, outside headings and other links."""

    default_priority = 700
    builders = ("html",)

    def run(self, **_: Any) -> None:
        """Replace the names of one page."""
        here = self.env.current_document.docname
        for literal in list(self.document.findall(nodes.literal)):
            found = page_of(literal.astext())
            inside = isinstance(literal.parent, nodes.title | nodes.reference)
            if found is None or inside or found[0] == here:
                continue
            target = self.app.builder.get_relative_uri(here, found[0]) + found[1]
            link = nodes.reference("", "", internal=True, refuri=target)
            literal.replace_self(link)
            link += literal
