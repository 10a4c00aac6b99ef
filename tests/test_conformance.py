"""The table of clauses of 3GPP is true to the tests and keys that it names, and check and show lead to its page."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from command import phyloop as run_command

from docs.generators import conformance
from phy.config import LinkConfig
from phy.links.warnings import link_warnings
from scenarios.schema.schema_keys import schema_keys

ROOT = Path(__file__).resolve().parents[1]
CLAUSES = conformance.clauses()


def test_every_clause_stands_once() -> None:
    found = Counter((row.standard, row.clause) for row in CLAUSES)
    assert len(found) > 10
    assert [clause for clause, number in found.items() if number > 1] == []


@pytest.mark.parametrize("row", CLAUSES, ids=[f"{row.standard} {row.clause}" for row in CLAUSES])
def test_a_row_names_a_test_and_keys_that_exist(row: conformance.Clause) -> None:
    if row.status != "not":
        assert row.test, "a clause that is followed has a test"
        path, _, name = row.test.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not name or re.search(rf"^def {re.escape(name)}\(", text, re.MULTILINE)
    assert row.status == "followed" or row.differs, "a clause that is not followed says what differs"
    assert [key for key in row.keys if key not in schema_keys()] == []


def test_the_page_has_every_clause() -> None:
    lines = conformance.render().splitlines()
    for row in CLAUSES:
        assert any(line.startswith(f"| {row.clause} | ") and row.status in line for line in lines)
    assert "conformance" in (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


def test_show_leads_to_the_page() -> None:
    assert "docs/conformance.md" in run_command("show", "link.coding").stdout


def link_of(**coding: object) -> LinkConfig:
    written = {"access": "orthogonal", "modulation": "qpsk", "coding": {"code": "ldpc5g", **coding}}
    return LinkConfig.model_validate({**written, "packet_size_bytes": 20})


@pytest.mark.parametrize(
    ("coding", "said"),
    [({"standard": "sionna"}, "coding.standard: sionna"), ({"rate": 0.92}, "at rate 8/9, not 0.92")],
    ids=["another convention", "another rate"],
)
def test_check_says_when_a_link_leaves_the_standard(coding: dict[str, object], said: str) -> None:
    (sentence,) = link_warnings(link_of(**coding))
    assert said in sentence
    assert "docs/conformance.md" in sentence


def test_check_is_silent_about_a_link_of_the_standard() -> None:
    assert list(link_warnings(link_of())) == []
    assert list(link_warnings(link_of(rate=0.92, transport_block="ts38214"))) == []
