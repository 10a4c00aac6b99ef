"""Every paper that the tree cites by its authors and year is on the page of references."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CITATION = re.compile(r"\b([A-Z][\w-]+)(?: et al\.|(?:, [A-Z][\w-]+)*,? and [A-Z][\w-]+),? ((?:19|20)\d\d)\b")
FOLDERS = ("phy", "privacy", "fl", "scenarios", "phyloop", "docs")


def test_every_cited_paper_is_on_the_page_of_references() -> None:
    page = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
    known = {(name, year) for name, year in re.findall(r"^\| ([A-Z][\w-]+).*?(\d{4}) \|", page, re.MULTILINE)}
    files = [path for folder in FOLDERS for ext in ("py", "md", "yaml") for path in (ROOT / folder).rglob(f"*.{ext}")]
    cited = {
        (name, year)
        for path in [*files, ROOT / "README.md"]
        for name, year in CITATION.findall(" ".join(path.read_text(encoding="utf-8").split()))
    }
    assert len(cited) > 30
    assert cited <= known
