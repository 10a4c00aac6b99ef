"""How a kernel is compiled: by numba, at its first call, kept on disk.

Kernels hold the interpreter's lock no longer than the call itself, so that `phy.numerics.workers` can run several at
once in plain threads: no threading layer to configure, and none that a fork could break.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

# A sum over lanes needs `reassoc`; what is not a number or infinite keeps its meaning.
_FASTMATH = {"reassoc", "contract", "nsz", "arcp", "afn"}


def _writable_folder() -> Path:
    """Where machine code is kept: the user's cache, or a folder of this user's own where there is no home.

    Sources have a part in its name, because numba looks at the file of a kernel alone, not at what it calls.
    """
    sources = hashlib.sha256()
    phy = Path(__file__).parents[1]
    for folder in (phy / "numerics", phy / "engines" / "fused"):
        for source in sorted(folder.rglob("*.py")):
            sources.update(source.read_bytes())
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    for folder in (home / "phyloop", Path(tempfile.gettempdir()) / f"phyloop-{os.getuid()}"):
        kept = folder / "kernels" / sources.hexdigest()[:16]
        try:
            kept.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(kept, os.W_OK):
            return kept
    return Path(tempfile.mkdtemp(prefix="phyloop-kernels-"))


_njit: Any = numba.njit
_register_jitable: Any = register_jitable
_config: Any = numba.config
if not _config.CACHE_DIR:
    _config.CACHE_DIR = str(_writable_folder())


_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "no_cfunc_wrapper": True,  # none is called from C
}
# A part allocates nothing: it counts no references to arrays, which costs as much as the arithmetic of a short loop.
_OF_PARTS: dict[str, Any] = {**_OPTIONS, "fastmath": _FASTMATH, "_nrt": False}


def kernel(function: Callable[..., Any]) -> Any:
    """A function called from Python: compiled at its first call, its machine code found on disk later."""
    return _njit(**_OPTIONS, cache=True, fastmath=_FASTMATH)(function)


def lean_kernel(function: Callable[..., Any]) -> Any:
    """A kernel that allocates nothing and counts no references, as no part does."""
    return _njit(**_OF_PARTS, cache=True)(function)


def exact_kernel(function: Callable[..., Any]) -> Any:
    """A kernel that rounds as NumPy does: sums in the order they are written, divisions that stay divisions."""
    return _njit(**_OPTIONS, cache=True)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A function that becomes part of the kernel that calls it.

    LLVM links all calls of a name to the copy that is loaded first, and copies may add up in another order. A kernel
    without calls has the same sums whatever was loaded before. Loops are vectors already: LLVM works on a part first.
    """
    return _register_jitable(**_OF_PARTS, forceinline=True)(function)


def shared(function: Callable[..., Any]) -> Any:
    """A long function of whole numbers that stays a function of its own, which compiles faster.

    Any copy gives the same numbers, so it does not matter which one a kernel calls.
    """
    return _register_jitable(**_OF_PARTS, forceinline=False)(function)


def spliced(function: Callable[..., Any]) -> Any:
    """A function that is written into the kernel that calls it before anything is compiled.

    For what chooses between parts and takes many arguments: as a function of its own it would compile for longer. And
    for sums that LLVM would put into another order when it works on them twice, alone and in the kernel.
    """
    return _njit(**_OF_PARTS, inline="always")(function)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A contiguous view that no kernel can write to: one type for all, since another is compiled, and rounded, anew.

    An array that is all that is answered itself.
    """
    flags = array.flags
    if flags.c_contiguous and not flags.writeable:
        return array
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


@inlined
def shifted_left(word: Any, places: Any) -> Any:
    """A uint32 by fewer than 32 places that are not known before the call.

    Numba shifts in 64 bits. Only where LLVM sees that 32 are enough, a vector holds eight numbers and not four.
    """
    return np.uint32(word << np.uint32(places & np.uint32(31)))


@inlined
def shifted_right(word: Any, places: Any) -> Any:
    """Inverse of `shifted_left`."""
    return np.uint32(word >> np.uint32(places & np.uint32(31)))
