"""The rules of the import graph, of class names, interfaces and sizes, and the diagram that shows the packages."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest
from code_size import Size, size_of, sizes
from draw_architecture import DIAGRAM, draw
from import_graph import (
    LEVELS,
    PACKAGES,
    ROOT,
    Graph,
    circles,
    import_graph,
    imported_names,
    longest_chain,
    module_files,
    mutual_parts,
    parsed,
)

LONGEST_CHAIN = 12  # modules, within one package
MOST_LINES = 500  # of a file, blank lines and comments included
MOST_METHODS = 12  # public methods and properties that one class defines
MOST_CODE = 53_700  # lines of code of all packages, as tests/helpers/code_size.py counts them
MOST_IMPORTS = 0.085  # of all lines of the packages

TABLES_OF_CASES = {"tests/scenarios/plan/test_identity.py"}

# What breaks a rule today. Delete an entry with its cause; a new entry needs a reason.
CHAINS_LEFT: dict[str, int] = {}
LINES_LEFT: dict[str, int] = {}
CIRCLES_LEFT: set[str] = set()
TYPED_CIRCLES_LEFT: set[str] = {
    "fl.algorithms.codec_studies.config, fl.algorithms.codec_studies.trials",
    "fl.algorithms.fedavg.account, fl.algorithms.fedavg.config, fl.algorithms.fedavg.conflicts, "
    "fl.algorithms.fedavg.convergence, fl.algorithms.fedavg.federation, fl.algorithms.fedavg.findings, "
    "fl.algorithms.fedavg.footprint, fl.algorithms.fedavg.results, fl.algorithms.fedavg.upload",
    "fl.algorithms.flmc.account, fl.algorithms.flmc.amplitude_caps, fl.algorithms.flmc.attackers, "
    "fl.algorithms.flmc.config, fl.algorithms.flmc.conflicts, fl.algorithms.flmc.rounds, "
    "fl.algorithms.flmc.schemes, fl.algorithms.flmc.trials, fl.algorithms.learning",
    "fl.algorithms.reconstruction.attack, fl.algorithms.reconstruction.config",
    "fl.models.layers, fl.models.model",
    "fl.schemes.codecs.codec, fl.schemes.codecs.partwise",
    "fl.schemes.coders.value_coder, fl.schemes.coders.value_scheme",
    "fl.schemes.cpa.cpa, fl.schemes.cpa.scheme",
    "fl.schemes.probit.probit, fl.schemes.probit.scheme",
    "phy.config.link, phy.config.power",
    "privacy.config.amplitude, privacy.config.base",
    "privacy.mechanisms.superposition._composed_loss, privacy.mechanisms.superposition.levels",
}  # counted with imports for types
MUTUAL_LEFT: set[str] = set()  # counted with imports for types
METHODS_LEFT: dict[str, int] = {
    "fl.algorithms.fedavg.config.FedAvgConfig": 24,
    "fl.algorithms.flmc.config.FlmcConfig": 28,
    "fl.algorithms.flmc.levels.Levels": 15,
    "fl.algorithms.learning.Learning": 31,
    "fl.schemes.cpa.scheme.CpaScheme": 15,
    "fl.schemes.jopeq.JopeqScheme": 13,
    "fl.schemes.probit.scheme.ProbitScheme": 13,
    "fl.schemes.scheme.Scheme": 20,
    "phy.config.link.LinkConfig": 21,
    "phy.frontends.resource_grid.Grid": 15,
    "phyloop.results.Run": 15,
    "scenarios.store.store.Store": 19,
    "scenarios.studies.learning.LearningStudy": 13,
}
NAMES_LEFT: set[str] = set()


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Return the import graph of this repository."""
    return import_graph(ROOT)


@pytest.fixture(scope="module")
def typed_graph() -> Graph:
    """Return the import graph of this repository, imports for types included."""
    return import_graph(ROOT, types=True)


def found_circles(graph: Graph) -> set[str]:
    """Return the modules of every circle of imports, one line of names per circle."""
    return {", ".join(circle) for circle in circles(graph)}


def upward_imports(graph: Graph) -> list[str]:
    """Return the imports from one package to another that does not lie on a lower level."""
    level = {package: index for index, packages in enumerate(LEVELS) for package in packages}
    pairs = [(module, other) for module, others in graph.items() for other in sorted(others)]
    names = [(module.split(".")[0], other.split(".")[0], f"{module} imports {other}") for module, other in pairs]
    return [words for package, other, words in names if package != other and level[other] <= level[package]]


def tensorflow_in_privacy(root: Path) -> list[str]:
    """Return the modules of privacy/ that import TensorFlow, Keras or Sionna."""
    return [
        module
        for module, path in module_files(root).items()
        if module.split(".")[0] == "privacy"
        and {name.split(".")[0] for name in imported_names(path)} & {"tensorflow", "keras", "sionna"}
    ]


def long_chains(graph: Graph) -> dict[str, list[str]]:
    """Return the longest chain of imports within each package, where it is too long."""
    within = {
        package: {
            module: {other for other in others if other.split(".")[0] == package}
            for module, others in graph.items()
            if module.split(".")[0] == package
        }
        for package in PACKAGES
    }
    chains = {package: longest_chain(part) for package, part in within.items()}
    return {package: chain for package, chain in chains.items() if len(chain) > LONGEST_CHAIN}


def public_classes(root: Path) -> dict[str, list[ast.ClassDef]]:
    """Return the public classes at the top of every module of the packages."""
    trees = {module: parsed(path.read_text()) for module, path in module_files(root).items()}
    return {
        module: [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
        for module, tree in trees.items()
    }


def wide_classes(root: Path) -> dict[str, int]:
    """Return the number of public methods and properties of every class that defines too many."""
    found = {}
    for module, classes in public_classes(root).items():
        for node in classes:
            methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)}
            number = len([name for name in methods if not name.startswith("_")])
            if number > MOST_METHODS:
                found[f"{module}.{node.name}"] = number
    return found


def repeated_names(root: Path) -> dict[str, list[str]]:
    """Return the modules of every public class name that several modules define."""
    modules = defaultdict(list)
    for module, classes in public_classes(root).items():
        for node in classes:
            modules[node.name].append(module)
    return {name: found for name, found in modules.items() if len(found) > 1}


def long_files(root: Path) -> dict[str, int]:
    """Return the number of lines of every file of the packages, tests and benchmarks that is too long."""
    paths = [path for folder in (*PACKAGES, "tests", "benchmarks") for path in sorted((root / folder).rglob("*.py"))]
    lines = {str(path.relative_to(root)): len(path.read_text().splitlines()) for path in paths}
    return {name: n for name, n in lines.items() if n > MOST_LINES and name not in TABLES_OF_CASES}


def test_the_diagram_is_current() -> None:
    assert DIAGRAM.read_text() == draw(ROOT), "run: python tests/helpers/draw_architecture.py"


def test_every_path_on_the_page_exists() -> None:
    paths = re.findall(r"`([a-z_]+/[a-z_/.]*)`", (ROOT / "docs" / "architecture.md").read_text())
    assert len(paths) > 30
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_no_module_imports_itself_by_way_of_others(graph: Graph) -> None:
    assert found_circles(graph) == CIRCLES_LEFT


def test_circles_through_imports_for_types_become_fewer(typed_graph: Graph) -> None:
    assert found_circles(typed_graph) == TYPED_CIRCLES_LEFT


def test_fewer_and_fewer_parts_import_each_other(typed_graph: Graph) -> None:
    assert mutual_parts(typed_graph) == MUTUAL_LEFT


def test_imports_run_down_between_packages(typed_graph: Graph) -> None:
    assert upward_imports(typed_graph) == []


def test_privacy_needs_no_tensorflow() -> None:
    assert tensorflow_in_privacy(ROOT) == []


def test_import_chains_are_short(graph: Graph) -> None:
    found = long_chains(graph)
    assert found.keys() == CHAINS_LEFT.keys()
    assert all(len(chain) <= CHAINS_LEFT[package] for package, chain in found.items()), found


def test_files_are_short() -> None:
    found = long_files(ROOT)
    assert found.keys() == LINES_LEFT.keys()
    assert all(lines <= LINES_LEFT[name] for name, lines in found.items()), found


def test_classes_have_few_public_methods() -> None:
    assert wide_classes(ROOT) == METHODS_LEFT


def test_public_class_names_are_unique() -> None:
    found = repeated_names(ROOT)
    assert found.keys() == NAMES_LEFT, found


def test_the_packages_do_not_outgrow_their_limits() -> None:
    size = sum(sizes(ROOT).values(), Size())
    assert size.code <= MOST_CODE
    assert size.imports <= MOST_IMPORTS * size.total


# Each rule on a small tree with one fault.


def write_tree(root: Path, **modules: str) -> Path:
    """Write a module `package__folder__name` of the given text per keyword, with `__init__.py` beside it."""
    for name, text in modules.items():
        path = root.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for folder in path.relative_to(root).parents:
            if folder.name:
                (root / folder / "__init__.py").touch()
    return root


def test_a_new_import_makes_the_diagram_stale(tmp_path: Path) -> None:
    write_tree(tmp_path, fl__run="import phy.links", phy__links__one="")
    before = draw(tmp_path)
    assert draw(write_tree(tmp_path, fl__run="import phy.links # the same")) == before
    assert draw(write_tree(tmp_path, fl__run="import phy.links\nimport fl.data", fl__data__one="")) != before


@pytest.mark.parametrize(
    "back", ["from fl.one import x", "from fl import one", "def f():\n    import fl.one", "class A:\n    import fl.one"]
)
def test_a_circle_is_found(tmp_path: Path, back: str) -> None:
    root = write_tree(tmp_path, fl__one="import fl.two", fl__two="from fl.three import x", fl__three=back)
    assert found_circles(import_graph(root)) == {"fl.one, fl.three, fl.two"}


def test_an_import_for_types_alone_is_no_circle(tmp_path: Path) -> None:
    later = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import fl.one\n"
    root = write_tree(tmp_path, fl__one="import fl.two", fl__two=later)
    assert found_circles(import_graph(root)) == set()
    write_tree(tmp_path, fl__two=later + "else:\n    import fl.one\n")
    assert found_circles(import_graph(root)) == {"fl.one, fl.two"}


def test_an_import_for_types_counts_in_the_typed_graph(tmp_path: Path) -> None:
    later = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import fl.data.one\n"
    root = write_tree(
        tmp_path, fl__data__one="import fl.rounds.two", fl__rounds__two=later, fl__data__two="import fl.data.one"
    )
    assert found_circles(import_graph(root, types=True)) == {"fl.data.one, fl.rounds.two"}
    assert mutual_parts(import_graph(root, types=True)) == {"fl.data, fl.rounds"}
    assert mutual_parts(import_graph(root)) == set()


@pytest.mark.parametrize(
    ("package", "other"),
    [
        ("phy", "fl"),
        ("phy", "privacy"),
        ("phy", "scenarios"),
        ("privacy", "phy"),
        ("privacy", "fl"),
        ("fl", "scenarios"),
        ("fl", "phyloop"),
        ("scenarios", "phyloop"),
    ],
)
def test_an_upward_import_is_found(tmp_path: Path, package: str, other: str) -> None:
    root = write_tree(
        tmp_path,
        **{f"{package}__one": f"def f():\n    from {other}.two import x", f"{other}__two": f"import {package}.three"},
        **{f"{package}__three": ""},
    )
    expected = [f"{package}.one imports {other}.two"]
    if {package, other} == {"phy", "privacy"}:  # neither may import the other
        expected.append(f"{other}.two imports {package}.three")
    assert sorted(upward_imports(import_graph(root))) == sorted(expected)


@pytest.mark.parametrize("library", ["tensorflow", "sionna.phy", "keras"])
def test_tensorflow_in_privacy_is_found(tmp_path: Path, library: str) -> None:
    root = write_tree(tmp_path, privacy__one=f"def f():\n    import {library}", phy__one=f"import {library}")
    assert tensorflow_in_privacy(root) == ["privacy.one"]


@pytest.mark.parametrize("length", [LONGEST_CHAIN, LONGEST_CHAIN + 1])
def test_a_long_chain_is_found(tmp_path: Path, length: int) -> None:
    texts = {f"fl__m{index}": f"import fl.m{index + 1}" for index in range(length - 1)}
    graph = import_graph(write_tree(tmp_path, **texts, **{f"fl__m{length - 1}": "import phy.one"}, phy__one=""))
    found = {package: len(chain) for package, chain in long_chains(graph).items()}
    assert found == ({"fl": length} if length > LONGEST_CHAIN else {})


def test_a_chain_through_a_circle_ends(tmp_path: Path) -> None:
    graph = import_graph(write_tree(tmp_path, fl__a="import fl.b", fl__b="import fl.a, fl.c", fl__c=""))
    assert longest_chain(graph) == ["fl.b", "fl.c"]


@pytest.mark.parametrize("number", [MOST_METHODS, MOST_METHODS + 1])
def test_a_wide_class_is_found(tmp_path: Path, number: int) -> None:
    methods = "".join(f"    def m{index}(self): ...\n" for index in range(number))
    root = write_tree(tmp_path, fl__one=f"class Wide:\n{methods}    def _own(self): ...\n    m0 = 1\n")
    assert wide_classes(root) == ({"fl.one.Wide": number} if number > MOST_METHODS else {})


def test_a_class_name_in_two_modules_is_found(tmp_path: Path) -> None:
    both = "class Link: ...\nclass _Own: ..."
    root = write_tree(tmp_path, fl__one=both, phy__one=both + "\nclass Other: ...")
    assert repeated_names(root) == {"Link": ["fl.one", "phy.one"]}


def test_only_lines_of_code_count_as_code() -> None:
    text = '''"""Title.

Text."""
import os

# A comment.
from a import (
    b,
)
TEXT = """of

three lines"""


def f():  # a comment beside code
    """Return 1."""
    import c
    return 1
'''
    assert size_of(text) == Size(total=18, code=5, docstrings=4, imports=5)


@pytest.mark.parametrize("folder", ["fl", "tests", "benchmarks"])
def test_a_long_file_is_found(tmp_path: Path, folder: str) -> None:
    root = write_tree(
        tmp_path, **{f"{folder}__one": "x = 1\n" * MOST_LINES, f"{folder}__two": "x = 1\n" * (MOST_LINES + 1)}
    )
    assert long_files(root) == {f"{folder}/two.py": MOST_LINES + 1}
