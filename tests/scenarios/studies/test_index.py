"""The index of a folder of runs: every run once, the latest first, and no name of a folder is anything but text."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from fake_runs import PROVENANCE

from scenarios.schema.errors import ScenarioError
from scenarios.store.store import Store
from scenarios.studies.index import write_index

EVIL = '<img src=x onerror=alert(1)>"&\u202e'


class Rows(HTMLParser):
    """Text of each row of the table, and the attributes of its links and pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append("")
        if tag in ("a", "img", "script"):
            self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.rows:
            self.rows[-1] += data.strip() + "|" * bool(data.strip())


def run(folder: Path, day: int, *, devices: int = 4, finish: bool = True) -> Path:
    root = {"name": "one", "learning": {"num_devices": devices, "rounds": 5}, "seed": 1}
    with Store.open(folder, scenario_name="one") as store:
        store.save_scenario(yaml="name: one\n", root=root)
        number = store.record_run(replace(PROVENANCE, date_utc=f"2020-11-{day:02}T12:00:00+00:00"))
        if finish:
            store.note_run(number, finished_at=f"2020-11-{day:02}T13:30:00+00:00", status="done")
    return folder


def read(folder: Path) -> tuple[list[str], list[tuple[str, dict[str, str | None]]]]:
    path, number = write_index(folder)
    text = path.read_text(encoding="utf-8")
    assert "\u202e" not in text
    parser = Rows()
    parser.feed(text)
    assert len(parser.rows) == number + 1
    return parser.rows[1:], parser.tags


def test_every_run_has_a_row_and_the_latest_is_the_first(tmp_path: Path) -> None:
    run(tmp_path / "early", 1)
    run(tmp_path / "studies" / "deep", 3, devices=8, finish=False)
    run(tmp_path / "late", 2)
    run(tmp_path / "much" / "too" / "deep", 2)
    rows, _ = read(tmp_path)
    assert rows[0] == "studies/deep|2020-11-03 12:00|killed: 0 tasks|one|learning.num_devices: 8|"
    assert [row.split("|")[:2] for row in rows[1:]] == [["late", "2020-11-02 13:30"], ["early", "2020-11-01 13:30"]]
    assert "rounds" not in "".join(rows)


def test_a_run_that_cannot_be_read_is_a_sentence_in_its_row(tmp_path: Path) -> None:
    run(tmp_path / "sound", 1)
    results = run(tmp_path / "damaged", 2) / "results.phyloop"
    results.write_bytes(results.read_bytes()[:-40])
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "results.phyloop").write_text("hello")
    rows, _ = read(tmp_path)
    assert [row.split("|")[0] for row in rows] == ["sound", "damaged", "foreign"]
    assert re.search(r"cannot be read: is damaged .*; run the scenario into this folder again", rows[1])
    assert "cannot be read: is not a phyloop result store; choose another folder." in rows[2]


def test_names_are_text_and_links_lead_to_reports(tmp_path: Path) -> None:
    folder = run(tmp_path / EVIL, 1)
    (folder / "report.html").write_text("a page")
    (folder / "figures").mkdir()
    (folder / "figures" / "01-mse.svg").write_text("<svg/>")
    (row,), tags = read(tmp_path)
    assert row.startswith(EVIL.replace("\u202e", "\\u202e") + "|")
    links = [attributes["href"] or "" for tag, attributes in tags if tag == "a"]
    assert (tmp_path / unquote(links[-1])).read_text() == "a page"
    assert [attributes["src"] for tag, attributes in tags if tag == "img"] == ["data:image/svg+xml;base64,PHN2Zy8+"]
    assert [tag for tag, _ in tags].count("script") == 1


def test_a_folder_without_runs_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="holds no run, and neither do the folders in it; name a folder of run"):
        write_index(tmp_path)
