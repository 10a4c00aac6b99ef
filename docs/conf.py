"""Settings of the documentation site: `make docs` builds it from this folder into build/docs, without network."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util.logging import getLogger

from docs.generators import crossrefs, equations, pages, tutorials

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent
project = "phyloop"
author = "The phyloop authors"
project_copyright = author
release = importlib.metadata.version("phyloop")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["generators", "conformance", "generated/conformance.md"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
nb_execution_mode = "off"  # `tutorials` executes notebooks, or takes what the tests have executed

autodoc_typehints = (
    "none"  # signatures have types that readers of the page do not need; docstrings name units and shapes
)
autodoc_member_order = "bysource"
add_module_names = False
default_role = "code"  # docstrings have names between single backticks
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "pydata_sphinx_theme"
html_title = "phyloop"
html_static_path = ["_static"]
html_css_files = ["phyloop.css"]
html_math_renderer = "svg"
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"index": [], "start": [], "glossary": []}
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_depth": 2,
    "search_bar_text": "Search",
}


def setup(app: Sphinx) -> None:
    """Write the generated pages before Sphinx looks for files, and give it executed notebooks to read."""
    app.add_html_math_renderer("svg", inline_renderers=equations.INLINE, block_renderers=equations.BLOCK)
    app.add_post_transform(crossrefs.NamesToPages)
    app.connect("builder-inited", lambda _: pages.write(DOCS / "generated", getLogger(__name__).info))
    app.connect("source-read", tutorials.use_executed)
