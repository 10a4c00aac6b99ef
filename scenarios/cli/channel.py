"""`phyloop channel`: what a file of a recorded channel holds, what is wrong with it, and its pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from phy.traces.container import is_npz
from phy.traces.dispersion import channel_dispersion
from phy.traces.errors import TraceError
from phy.traces.foreign import Asked, read_foreign
from phy.traces.recording import write_recording
from phy.traces.statistics import channel_statistics
from phy.traces.trace import defects
from scenarios.files.replacement import replacement, writing
from scenarios.report.channel import in_words, numbers_in_words, open_channel, write_channel_page
from scenarios.schema.errors import ScenarioError, printable


def check_channel(file: Path) -> bool:
    """`phyloop channel check`: print what a file holds and what is wrong; return True if it can be simulated."""
    trace = open_channel(file)
    for line in in_words(trace):
        print(printable(line))
    found = list(defects(trace))
    print()
    for wrong, sentence in found:
        print(printable(f"{'error' if wrong else 'warning'}: {sentence}."))
    sound = not any(wrong for wrong, _ in found)
    if sound:
        for line in numbers_in_words(channel_statistics(trace), trace):
            print(line)
        print(f"\nlink.channel: {{model: trace, file: {file}}}")
    return sound


def show_channel(file: Path, out: Path | None) -> list[Path]:
    """`phyloop channel show`: print the numbers of a recorded channel, draw it, and return the files."""
    from scenarios.report.figures.channels import draw_channel

    trace, stem = open_channel(file, sound=True), out or Path(file.stem)
    statistics = channel_statistics(trace)
    for line in (*in_words(trace), *numbers_in_words(statistics, trace)):
        print(printable(line))
    paths = draw_channel(trace, statistics, stem)
    for path in paths:
        print(f"figure  {path}")
    spread = channel_dispersion(trace)
    page = write_channel_page(trace, statistics, spread, stem.parent / f"{stem.name}-channel.html")
    print(f"page    {page}")
    return [*paths, page]


def import_channel(file: Path, out: Path, asked: Asked) -> bool:
    """`phyloop channel import`: write a foreign file as a recorded channel, and check it as `check_channel`."""
    if not is_npz(out):
        raise ScenarioError(problem="is no .npz file", remedy="name one that ends in .npz", file=out)
    try:
        recording = read_foreign(file, asked)
        with writing(out.parent, "the channel"), replacement(out) as stream:
            write_recording(stream, recording)
    except TraceError as error:
        raise ScenarioError(problem=error.problem, remedy=error.remedy, file=file) from error
    for sentence in recording.assumed:
        print(printable(f"assumed: {sentence}."))
    print(f"channel {out}")
    return check_channel(out)


def named_arrays(names: Sequence[str]) -> dict[str, str]:
    """Return `{"h": "H"}` for `["h=H"]`."""
    if bad := [one for one in names if "=" not in one]:
        raise ScenarioError(problem=f"{bad[0]} names no variable", remedy="write for example --name h=H", file="--name")
    return dict(one.partition("=")[::2] for one in names)
