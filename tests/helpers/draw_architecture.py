"""Draw the diagram of the packages, `docs/architecture.svg`: `python tests/helpers/draw_architecture.py`."""

from pathlib import Path

from import_graph import PACKAGES, ROOT, Graph, import_graph, module_files, package_arrows, part, parts_of

DIAGRAM = ROOT / "docs" / "architecture.svg"
WIDTH, MARGIN, TITLE, ROW, BOX, GAP = 1000, 50, 34, 36, 24, 16  # pixels
CHARACTER = 7.4  # pixels of a letter in a label, generously
STYLE = """text{font:13px sans-serif}text.package{font-weight:bold;font-size:15px}text.note{font-size:12px}
.page{fill:#fff}.frame{fill:#fff;stroke:#999}rect.folder{fill:#fff;stroke:#111}
rect.module{fill:#fff;stroke:#111;stroke-dasharray:2 2}
path{fill:none;stroke:#777;marker-end:url(#head)}.level{stroke:#111;stroke-width:2}
.back{stroke:#111;stroke-dasharray:6 4}marker path{marker:none;fill:#333;stroke:none}"""
HEAD = """<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"
 markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>"""
NOTES = (
    "An arrow points from the importing package to the imported one. Arrows that a longer way implies are left out.",
    "Dotted boxes: single modules. Dashed arrows: imports against the order of the others.",
)


def rectangle(kind: str, x: float, y: float, width: float, height: float) -> str:
    """Return a rounded box of a style class; pixels."""
    return f'<rect class="{kind}" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="5"/>'


def text(kind: str, x: float, y: float, words: str, anchor: str = "start") -> str:
    """Return a line of text of a style class; pixels."""
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{words}</text>'


def arrow(kind: str, *points: float) -> str:
    """Return a Bezier curve with an arrow head, from x and y of its start, two control points and its end; pixels."""
    x, y, *rest = (f"{number:.0f}" for number in points)
    return f'<path class="{kind}" d="M{x} {y}C{" ".join(rest)}"/>'


def columns_of(parts: Graph) -> dict[str, tuple[int, float]]:
    """Return column and row of every part: users left of what they import, rows by the mean row of the neighbours."""
    height = dict.fromkeys(parts, 0)
    for _ in parts:
        height = {name: max((height[head] + 1 for head in parts[name]), default=0) for name in parts}
    columns = [[n for n in sorted(parts) if height[n] == level] for level in range(max(height.values()), -1, -1)]
    users = {name: [tail for tail in parts if name in parts[tail]] for name in parts}
    row = {name: index - (len(column) - 1) / 2 for column in columns for index, name in enumerate(column)}
    for sweep in range(6):
        for column in columns if sweep % 2 else columns[::-1]:
            neighbours = {name: sorted(users[name]) if sweep % 2 else sorted(parts[name]) for name in column}
            mean = {n: sum(row[other] for other in others) / max(len(others), 1) for n, others in neighbours.items()}
            column.sort(key=lambda name, mean=mean: (mean[name], name))
            row |= {name: index - (len(column) - 1) / 2 for index, name in enumerate(column)}
    return {name: (index, row[name]) for index, column in enumerate(columns) for name in column}


def draw_package(package: str, graph: Graph, folders: set[str], top: float) -> tuple[list[str], float]:
    """Return the drawing of a package below `top` and the height it takes, both in pixels."""
    parts, back = parts_of(graph, package)
    places = columns_of(parts) if parts else {}
    rows = max((abs(row) for _, row in places.values()), default=-1)
    height = TITLE + (2 * rows + 2) * ROW
    step = (WIDTH - MARGIN) / max((column + 1 for column, _ in places.values()), default=1)
    centre = {
        # Every other column is lower, so that a long arrow passes between boxes.
        name: (MARGIN + step * (column + 0.5), top + TITLE + (row + rows + 0.8 + 0.4 * (column % 2)) * ROW)
        for name, (column, row) in places.items()
    }
    width = {name: CHARACTER * len(name.split(".")[1]) + 14 for name in places}
    lines = [
        rectangle("frame", MARGIN, top, WIDTH - MARGIN - 1, height),
        text("package", MARGIN + 12, top + 22, package),
    ]
    for tail in sorted(parts):
        for head in sorted(parts[tail]):
            (x, y), (x2, y2) = centre[tail], centre[head]
            x, x2 = x + width[tail] / 2, x2 - width[head] / 2
            lines.append(arrow("", x, y, x + step / 3, y, x2 - step / 3, y2, x2, y2))
    for tail, head in sorted(back):
        x, y, x2, y2 = centre[tail][0], centre[tail][1] + BOX / 2, centre[head][0], centre[head][1] + BOX / 2
        lines.append(arrow("back", x, y, x, y + 0.7 * ROW, x2, y2 + 0.7 * ROW, x2, y2))
    for name, (x, y) in sorted(centre.items()):
        kind = "folder" if name in folders else "module"
        lines.append(rectangle(kind, x - width[name] / 2, y - BOX / 2, width[name], BOX))
        lines.append(text(kind, x, y + 4, name.split(".")[1], "middle"))
    return lines, height


def draw(root: Path) -> str:
    """Return the diagram of the packages under `root` as SVG text."""
    graph, files = import_graph(root), module_files(root)
    folders = {part(name) for name, path in files.items() if path.name == "__init__.py" or name.count(".") > 1}
    lines, middle, top = [], {}, 4.0
    for package in PACKAGES:
        if package in graph:
            drawing, height = draw_package(package, graph, folders, top)
            lines += drawing
            middle[package], top = top + TITLE / 2, top + height + GAP
    for index, (tail, head) in enumerate(package_arrows(graph)):
        y, y2, x = middle[tail] + 6, middle[head] - 4, -8 * index
        lines.append(arrow("level", MARGIN, y, x, y, x, y2, MARGIN, y2))
    lines += [text("note", MARGIN, top + 18 * index, note) for index, note in enumerate(NOTES)]
    size = (WIDTH, round(top) + 18 * len(NOTES))
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}">'
    return "\n".join([opening, f"<style>{STYLE}</style>", HEAD, rectangle("page", 0, 0, *size), *lines, "</svg>\n"])


if __name__ == "__main__":
    DIAGRAM.write_text(draw(ROOT))
