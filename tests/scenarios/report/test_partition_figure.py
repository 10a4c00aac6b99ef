"""The picture of who holds which samples."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from fake_runs import make_plan
from numpy.typing import NDArray

from scenarios.report.figures import images as partitions
from scenarios.report.figures.images import partition_caption, partition_figure
from scenarios.report.figures.style import write_picture


def counts_of(num_devices: int, num_classes: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Uneven sizes, many empty cells, no empty device."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.exponential(5.0, (num_devices, num_classes)) ** 2 / 10)
    counts[:, 0] += 1
    return counts


@pytest.mark.parametrize(("num_devices", "num_classes"), [(1, 2), (2, 2), (20, 62), (1000, 100), (3000, 10)])
def test_files_of_any_size_are_written_and_the_svg_is_the_same_every_time(
    tmp_path: Path, num_devices: int, num_classes: int
) -> None:
    counts = counts_of(num_devices, num_classes)
    make = partial(partition_figure, counts)
    files = write_picture(make, tmp_path / "who", shows=counts)
    assert files.svg == tmp_path / "who.svg"
    first = files.svg.read_bytes()
    write_picture(make, tmp_path / "again", shows=counts)
    assert (tmp_path / "again.svg").read_bytes() == first
    assert len(first) < 1_000_000


def test_every_cell_has_its_samples_and_an_empty_one_no_colour() -> None:
    counts = counts_of(30, 12)
    image = partition_figure(counts).axes[1].images[0]
    drawn = image.get_array()
    assert np.array_equal(np.ma.filled(drawn, 0), counts.T)
    assert np.array_equal(drawn.mask, counts.T == 0)
    assert image.to_rgba(drawn)[0, 0, 3] == 1.0
    assert (image.to_rgba(drawn)[drawn.mask][:, 3] == 0.0).all()


@pytest.mark.parametrize("spread", [1, 100])
def test_more_is_darker_in_grey_and_one_sample_is_not_white(spread: int) -> None:
    counts = np.arange(1, 41).reshape(4, 10)
    counts[-1, -1] *= spread  # far above the others: colours go by decades
    image = partition_figure(counts).axes[1].images[0]
    colours = image.to_rgba(np.unique(counts))[:, :3] @ (0.299, 0.587, 0.114)
    assert colours[0] < 0.9
    assert colours[-1] < 0.3
    assert (np.diff(colours) <= 0).all()
    assert colours[0] - colours[19] > 0.2  # 1 and 20 samples are told apart


def test_a_thousand_devices_have_a_pixel_each() -> None:
    figure = partition_figure(counts_of(1000, 10))
    figure.draw_without_rendering()
    assert figure.axes[1].get_window_extent().width * 150 / figure.dpi > 1000


@pytest.mark.parametrize(("num_classes", "most"), [(10, 10), (62, 30), (100, 30)])
def test_ticks_of_labels_are_whole_and_thinned(num_classes: int, most: int) -> None:
    figure = partition_figure(counts_of(10, num_classes))
    figure.draw_without_rendering()
    cells = figure.axes[1]
    inside = [tick for tick in cells.get_yticks() if 0 <= tick < num_classes]
    assert 2 <= len(inside) <= most
    assert all(tick == round(tick) for tick in inside)
    assert (cells.get_xlabel(), cells.get_ylabel()) == ("device", "label")


@pytest.mark.parametrize("most", [2, 4, 30])
def test_the_scale_of_colours_counts_whole_samples(most: int) -> None:
    counts = np.tile(np.arange(1, most + 1), (3, 1))
    figure = partition_figure(counts)
    figure.draw_without_rendering()
    ticks = figure.axes[-1].get_yticks()
    assert 2 <= len(ticks) <= 8
    assert (ticks == np.round(ticks)).all()


def test_sizes_are_drawn_where_they_differ() -> None:
    uneven, even = np.array([[5, 0], [0, 9]]), np.array([[5, 4], [0, 9]])
    assert [axes.get_ylabel() for axes in partition_figure(uneven).axes] == ["samples", "label", "samples"]
    assert [axes.get_ylabel() for axes in partition_figure(even).axes] == ["label", "samples"]


def test_the_caption_says_how_many() -> None:
    assert partition_caption(np.array([[5, 0, 0], [1000, 1000, 0]])).endswith(
        "2 devices, the darker the more, white for none; 5 to 2,000 samples and 1 to 2 of 3 labels per device."
    )
    assert partition_caption(np.full((7, 3), 2)).endswith("; 6 samples and 3 of 3 labels per device.")


def test_ways_of_dealing_that_are_not_drawn_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "label_counts", lambda *_, **__: np.ones((2, 3), np.int64))
    ways = [{"learning.partition": {"kind": "dirichlet", "alpha": float(alpha)}} for alpha in range(1, 6)]
    learning = {"algorithm": "fedavg", "num_devices": 2}
    drawn = partitions.draw_partitions(tmp_path, make_plan(ways, trials=1, learning=learning))
    assert [one.caption.endswith("The sweep deals in 5 ways; the first 3 are drawn.") for one in drawn] == [0, 0, 1]
    few = partitions.draw_partitions(tmp_path, make_plan(ways[:3], trials=1, learning=learning))
    assert not any("drawn" in one.caption for one in few)
    alike = make_plan([{"learning.partition": {"kind": "iid"}}], trials=1, learning=learning)
    assert partitions.draw_partitions(tmp_path, alike) == ()
