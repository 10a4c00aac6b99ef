"""Compilation of kernels: by numba, at the first call, kept on disk.

Kernels hold the interpreter's lock no longer than the call itself, so that `phy.numerics.workers` can run several at
once in plain threads: no threading layer to configure, and none that a fork could break.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.event import Event, Listener, register
from numpy.typing import NDArray

# A sum over lanes needs `reassoc`; what is not a number or infinite keeps its meaning.
_FASTMATH = {"reassoc", "contract", "nsz", "arcp", "afn"}


def _writable_folder() -> Path:
    """Return the folder of machine code: in the user's cache, or a folder of the user where there is no home.

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
_config: Any = numba.config
if not _config.CACHE_DIR:
    _config.CACHE_DIR = str(_writable_folder())


class _Compilations(Listener):
    """Number of compilations under way, for the display of progress; kernels found on disk are none."""

    under_way = 0

    def on_start(self, _: Event) -> None:
        self.under_way += 1

    def on_end(self, _: Event) -> None:
        self.under_way -= 1


compilations = _Compilations()
register("numba:compile", compilations)


class _SelfContained(JITCodeLibrary):
    """Machine code that calls its own copies of stages.

    LLVM links all calls of a name to the copy that is loaded first. A stage that was compiled for another kernel may
    add up in another order: sums would differ in their last bits with the kernels that were loaded before.
    """

    def _optimize_final_module(self) -> None:
        super()._optimize_final_module()
        # Only now: what is known to be a kernel's own while it is optimised becomes part of it, and loses its vectors.
        for function in self._final_module.functions:
            if function.linkage.name == "linkonce_odr" and not function.is_declaration:
                function.linkage = "internal"


class _KernelCompiler(Compiler):
    """Numba's compiler, into a library of the kind above."""

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = _SelfContained(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.flags.no_cfunc_wrapper = True  # none is called from C
        return super().define_pipelines()


class _NoEnvironment:
    """Takes what numba tells of the Python objects that a function uses; a part uses none."""

    def set_env(self, *_: Any) -> None:
        pass


class _Part(JITCodeLibrary):
    """Code that kernels link in, as it was written: LLVM works on it in each of them, and nowhere else.

    Numba would optimise every function alone too, and make machine code of it. That took two thirds of the time.
    """

    is_inlined = False
    """Else it stays a function of its own, however short."""

    @property
    def codegen(self) -> Any:
        return _NoEnvironment()

    def get_pointer_to_function(self, _name: str) -> Any:
        # Who calls a part from Python calls what stands here with an object of numba's: a TypeError.
        return ctypes.cast(ctypes.pythonapi.PyObject_Call, ctypes.c_void_p).value

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._verify_declare_only_symbols()
        for function in self._final_module.functions:
            if function.linkage.name == "external" and not function.is_declaration and not self.is_inlined:
                function.add_function_attribute("noinline")
        self._finalized = True


class _PartCompiler(Compiler):
    """Numba's compiler, into a library of the kind above, without the ways in from Python and C."""

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.is_inlined = state.flags.forceinline
        state.flags.no_cpython_wrapper = True
        state.flags.no_cfunc_wrapper = True
        return super().define_pipelines()


def _compiled(function: Callable[..., Any], compiler: type[Compiler], **options: Any) -> Any:
    return _njit(nogil=True, error_model="numpy", boundscheck=False, pipeline_class=compiler, **options)(function)


def kernel(function: Callable[..., Any]) -> Any:
    """A function called from Python: compiled at its first call, its machine code found on disk later."""
    return _compiled(function, _KernelCompiler, cache=True, fastmath=_FASTMATH)


def lean_kernel(function: Callable[..., Any]) -> Any:
    """A kernel that allocates nothing and counts no references, as `stage` does not."""
    return _compiled(function, _KernelCompiler, cache=True, fastmath=_FASTMATH, _nrt=False)


def contracted_kernel(function: Callable[..., Any]) -> Any:
    """A kernel that rounds as XLA does: sums in the order they are written, products fused into them."""
    return _compiled(function, _KernelCompiler, cache=True, fastmath={"contract"})


def exact_kernel(function: Callable[..., Any]) -> Any:
    """A kernel that rounds as NumPy does: sums in the order they are written, divisions that stay divisions."""
    return _compiled(function, _KernelCompiler, cache=True)


def inlined(function: Callable[..., Any]) -> Any:
    """A function that becomes part of the kernel that calls it, where LLVM can turn its loop into vectors."""
    return _compiled(function, _PartCompiler, fastmath=_FASTMATH, forceinline=True)


def stage(function: Callable[..., Any]) -> Any:
    """A loop that a kernel calls. It stays a function of its own: in one large function LLVM gives up on vectors.

    It may not allocate: it counts no references to arrays, which costs as much as the arithmetic of a short loop.
    """
    return _compiled(function, _PartCompiler, fastmath=_FASTMATH, _nrt=False)


def spliced(function: Callable[..., Any]) -> Any:
    """A function that is written into the kernel that calls it before anything is compiled.

    For what chooses between stages and takes many arguments: as a function of its own it would compile for longer.
    """
    return _compiled(function, _PartCompiler, fastmath=_FASTMATH, inline="always")


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A contiguous view that no kernel can write to: one type for all, since another is compiled, and rounded, anew.

    An array that is read-only and contiguous already is returned itself.
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
