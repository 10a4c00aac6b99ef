"""Run folders in which something else stands where a run keeps a file: nothing outside is written, nothing hangs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import typer

from scenarios.cli.app import named
from scenarios.files.heartbeat import PROGRESS, read_heartbeat
from scenarios.files.log import LOG, logged, logger
from scenarios.files.plain_files import FOLDERS, LOCK, RESOLVED, RESULTS, holder, open_plain, refuse_replaced, take_lock
from scenarios.files.replacement import replace_text, writing
from scenarios.schema.errors import ScenarioError
from scenarios.store.store import Store

IN_PLACE = (RESULTS, LOCK)


def replace(path: Path, *, kind: str, leading_to: Path) -> None:
    """A link, a pipe or a folder at `path`."""
    if kind == "link":
        path.symlink_to(leading_to)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
@pytest.mark.parametrize("name", IN_PLACE)
def test_a_run_writes_through_nothing_that_stands_in_the_place_of_its_files(
    tmp_path: Path, name: str, kind: str
) -> None:
    folder, precious = tmp_path / "run", tmp_path / "precious"
    folder.mkdir()
    precious.write_text("keep me")
    replace(folder / name, kind=kind, leading_to=precious)
    with pytest.raises(ScenarioError, match=f"{name}: is not a plain file, and a run writes here; move it away"):
        refuse_replaced(folder)


def test_what_a_run_replaces_as_a_whole_may_be_a_link_and_no_folder(tmp_path: Path) -> None:
    (tmp_path / RESOLVED).symlink_to(tmp_path / "elsewhere.yaml")
    refuse_replaced(tmp_path)
    (tmp_path / RESOLVED).unlink()
    (tmp_path / RESOLVED).mkdir()
    with pytest.raises(ScenarioError, match=f"{RESOLVED}: is not a plain file"):
        refuse_replaced(tmp_path)


def test_a_folder_as_a_run_leaves_it_is_not_refused(tmp_path: Path) -> None:
    for name in (*IN_PLACE, RESOLVED):
        (tmp_path / name).touch()
    refuse_replaced(tmp_path)
    refuse_replaced(tmp_path / "not there")


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_log_goes_into_a_plain_file_or_nowhere(tmp_path: Path, kind: str) -> None:
    folder, precious = tmp_path / "run", tmp_path / "precious"
    folder.mkdir()
    precious.write_text("keep me")
    replace(folder / LOG, kind=kind, leading_to=precious)
    with logged(folder):
        logger("run").error("an event")
    assert precious.read_text() == "keep me"


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_status_waits_for_no_pipe_and_follows_no_link(tmp_path: Path, kind: str) -> None:
    folder, held = tmp_path / "run", tmp_path / "held"
    folder.mkdir()
    with take_lock(held):
        for name in (PROGRESS, LOCK):
            replace(folder / name, kind=kind, leading_to=held)
        assert read_heartbeat(folder) is None
        assert holder(folder) == (False, None)


def test_nothing_but_a_plain_file_is_opened(tmp_path: Path) -> None:
    before = set(Path("/proc/self/fd").iterdir()) if sys.platform == "linux" else None
    for path in (Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match="not a plain file"):
            open_plain(path)
    assert before is None or set(Path("/proc/self/fd").iterdir()) == before


@pytest.mark.parametrize("text", ["a" * 256, "/".join(["a" * 200] * 21)])
def test_a_name_longer_than_a_name_may_be_is_bad_input(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"{len(text)} characters are more than a name may have"):
        named(text)


def test_a_long_name_that_may_be_is_a_folder(tmp_path: Path) -> None:
    assert named(str(tmp_path / ("a" * 255))) == tmp_path / ("a" * 255)


def test_no_link_is_taken_for_the_lock_whoever_asks_for_it(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    (tmp_path / LOCK).symlink_to(precious)
    with pytest.raises(OSError, match="symbolic link"):
        take_lock(tmp_path / LOCK)
    assert precious.read_text() == "keep me"


@pytest.mark.parametrize("name", FOLDERS)
def test_no_folder_of_a_run_leads_out_of_it(tmp_path: Path, name: str) -> None:
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (elsewhere / "01-mse.svg").write_text("keep me")
    (folder / RESULTS).touch()
    (folder / name).symlink_to(elsewhere)
    for write in (
        lambda: refuse_replaced(folder),
        lambda: write_into(folder / name),
        lambda: write_into(folder / name / "figures"),
    ):
        with pytest.raises(ScenarioError, match=f"{name}: is a symbolic link, and phyloop follows none"):
            write()
    assert [path.read_text() for path in elsewhere.iterdir()] == ["keep me"]


def write_into(folder: Path) -> None:
    with writing(folder, "figures"):
        replace_text(folder / "01-mse.svg", "new")


def test_a_run_folder_may_itself_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / RESULTS).touch()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    refuse_replaced(tmp_path / "run")
    write_into(tmp_path / "run" / "figures")
    assert (tmp_path / "disk" / "figures" / "01-mse.svg").read_text() == "new"


def test_a_store_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    with Store.open(tmp_path / "run", scenario_name="demo"):
        pass
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / RESULTS).symlink_to(tmp_path / "run" / RESULTS)
    with pytest.raises(ScenarioError, match=f"{RESULTS}: is a symbolic link"):
        Store.open_existing(tmp_path / "foreign")


def test_a_link_where_a_file_is_about_to_be_written_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    (tmp_path / f"page.html.{os.getpid()}.tmp").symlink_to(precious)
    (tmp_path / "page.html").symlink_to(precious)
    replace_text(tmp_path / "page.html", "new")
    assert (precious.read_text(), (tmp_path / "page.html").read_text()) == ("keep me", "new")
