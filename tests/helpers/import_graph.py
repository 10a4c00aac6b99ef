"""The import graph of the packages, read from the source without importing it.

An import inside a function counts like one at the head of a module. An import under `if TYPE_CHECKING` counts only with
`types=True`.
"""

import ast
import functools
import itertools
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEVELS = (("phyloop",), ("scenarios",), ("fl",), ("phy", "privacy"))  # a package imports from lower levels only
PACKAGES = tuple(itertools.chain(*LEVELS))

Graph = dict[str, set[str]]


def module_files(root: Path) -> dict[str, Path]:
    """Return the file of every module, by dotted name; a folder's `__init__.py` has the folder's name."""
    files = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


@functools.cache
def parsed(text: str) -> ast.Module:
    """Return the syntax tree of a module, the same object for the same text: do not change it."""
    return ast.parse(text)


def imported_names(path: Path, *, types: bool = False) -> set[str]:
    """Return every dotted name that a file imports, `package.module.name` for `from package.module import name`."""
    names: set[str] = set()
    pending: list[ast.AST] = [parsed(path.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif not types and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        else:
            pending += ast.iter_child_nodes(node)
    return names


def import_graph(root: Path, *, types: bool = False) -> Graph:
    """Return which modules of the packages each module imports, for types too if `types` is true."""
    files = module_files(root)
    graph = {}
    for module, path in files.items():
        names = imported_names(path, types=types)
        found = {name if name in files else name.rpartition(".")[0] for name in names}
        graph[module] = (found & files.keys()) - {module}
    return graph


def reachable(graph: Graph) -> Graph:
    """Return all modules that each module reaches by one import or more."""
    closure = {}
    for start in graph:
        seen: set[str] = set()
        pending = list(graph[start])
        while pending:
            if (module := pending.pop()) not in seen:
                seen.add(module)
                pending += graph[module]
        closure[start] = seen
    return closure


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or by way of others."""
    closure = reachable(graph)
    groups = {tuple(sorted(other for other in closure[one] if one in closure[other])) for one in graph}
    return sorted(list(group) for group in groups if group)


def longest_chain(graph: Graph) -> list[str]:
    """Return the longest chain of imports; at most one module of a circle is in it."""
    closure = reachable(graph)
    chains: dict[str, list[str]] = {}
    for module in sorted(graph, key=lambda name: (len(closure[name] - {name}), name)):
        lower = (chains.get(other, [other]) for other in sorted(graph[module]) if module not in closure[other])
        chains[module] = [module, *max(lower, key=len, default=[])]
    return max(chains.values(), key=len, default=[])


def part(module: str) -> str:
    """Return the sub-package of a module, or the module itself where it lies directly in the package."""
    return ".".join(module.split(".")[:2])


def mutual_parts(graph: Graph) -> set[str]:
    """Return the pairs of parts of one package that import each other, as `package.one, package.two`.

    A module that lies directly in its package is a part. `__init__.py` of the package is none.
    """
    arrows = {(part(module), part(other)) for module, others in graph.items() for other in others}
    inner = {(tail, head) for tail, head in arrows if tail.split(".")[0] == head.split(".")[0]}
    return {f"{a}, {b}" for a, b in inner if a < b and (b, a) in inner and "." in a and "." in b}


def parts_of(graph: Graph, package: str) -> tuple[Graph, list[tuple[str, str]]]:
    """Return what each part of a package imports, without circles, and the arrows left out for that.

    `__init__.py` of the package is no part. Of a circle the arrow of the fewest imports is left out. An arrow that a
    longer way implies is dropped as well.
    """
    count = Counter(
        (part(module), part(other))
        for module, others in graph.items()
        for other in others
        if part(module) != part(other)
        and {module.split(".")[0], other.split(".")[0]} == {package}
        and package not in (module, other)
    )
    parts: Graph = {part(module): set() for module in graph if module.startswith(f"{package}.")}
    parts |= {end: set() for arrow in count for end in arrow}
    back = []
    for (tail, head), _ in sorted(count.items(), key=lambda item: (-item[1], item[0])):
        if tail in reachable(parts)[head]:
            back.append((tail, head))
        else:
            parts[tail].add(head)
    closure = reachable(parts)
    return {p: {h for h in heads if not any(h in closure[o] for o in heads)} for p, heads in parts.items()}, back


def package_arrows(graph: Graph) -> list[tuple[str, str]]:
    """Return which package imports which, without the arrows that a longer way implies."""
    pairs = {(module.split(".")[0], other.split(".")[0]) for module in graph for other in graph[module]}
    packages: Graph = {package: {head for tail, head in pairs if tail == package != head} for package in PACKAGES}
    below = reachable(packages)
    return [(p, h) for p in PACKAGES for h in sorted(packages[p]) if not any(h in below[o] for o in packages[p] - {h})]
