"""Count the code lines of the packages: `python tests/helpers/code_size.py` prints a table.

A code line has a token of Python that belongs to neither a docstring nor a comment nor an import. Blank lines count as
nothing. A line that ends with a comment is a code line. `if TYPE_CHECKING:` is one, the imports below it are not.
"""

import ast
import io
import tokenize
from dataclasses import astuple, dataclass
from pathlib import Path

from import_graph import PACKAGES, ROOT, module_files, parsed

NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@dataclass(frozen=True)
class Size:
    """Numbers of lines: all, code, docstrings, imports."""

    total: int = 0
    code: int = 0
    docstrings: int = 0
    imports: int = 0

    def __add__(self, other: "Size") -> "Size":
        """Return the sums of both."""
        return Size(*map(sum, zip(astuple(self), astuple(other), strict=True)))


def size_of(text: str) -> Size:
    """Return the numbers of lines of a module."""
    imports: set[int] = set()
    docstrings: set[int] = set()
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= set(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings |= set(range(node.lineno, node.end_lineno + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    held = {line for t in tokens if t.type not in NO_CODE for line in range(t.start[0], t.end[0] + 1)}
    return Size(len(text.splitlines()), len(held - imports - docstrings), len(docstrings), len(imports))


def sizes(root: Path) -> dict[str, Size]:
    """Return the numbers of lines of every package."""
    found = dict.fromkeys(PACKAGES, Size())
    for module, path in module_files(root).items():
        found[module.split(".")[0]] += size_of(path.read_text())
    return found


if __name__ == "__main__":
    table = sizes(ROOT)
    print(f"{'package':12}{'lines':>8}{'code':>8}{'docstrings':>12}{'imports':>9}")
    for name, size in [*table.items(), ("all", sum(table.values(), Size()))]:
        share = f"{size.imports / max(size.total, 1):.1%}"
        print(f"{name:12}{size.total:8,}{size.code:8,}{size.docstrings:12,}{share:>9}")
