"""Compilation of kernels: by numba, at the first call, kept on disk.

Kernels hold the interpreter's lock no longer than the call itself, so that `phy.numerics.workers` can run several at
once in plain threads: no threading layer to configure, and none that a fork could break.
"""

from __future__ import annotations

import fcntl
import gc
import hashlib
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary, get_host_cpu_features
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.event import Event, Listener, register
from numba.core.typed_passes import NopythonTypeInference
from numba.extending import register_jitable
from numpy.typing import NDArray

# A sum over lanes needs `reassoc`; what is not a number or infinite keeps its meaning.
_FASTMATH = {"reassoc", "contract", "nsz", "arcp", "afn"}
_LINE_BYTES = 64


def _writable_folder() -> Path:
    """Return the folder of machine code: in the user's cache, or a folder of the user where there is no home.

    Sources have a part in its name, because numba looks at the file of a kernel alone, not at what it calls.
    """
    sources = hashlib.sha256()
    phy = Path(__file__).parents[1]
    for folder in (phy / "numerics", phy / "coding", phy / "engines" / "fused"):
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
# In the environment: where any variable of numba changes, it reads all of them anew.
if not _config.CACHE_DIR:
    os.environ["NUMBA_CACHE_DIR"] = str(_writable_folder())


def host_has(feature: str) -> bool:
    """Return True if kernels may use this extension of the processor, as LLVM names it."""
    return f"+{feature}" in (_config.CPU_FEATURES or get_host_cpu_features()).split(",")


if _config.CPU_NAME is None and _config.CPU_FEATURES is None and host_has("avx512f"):
    # LLVM takes half of AVX-512's width on Intel processors, as the first of them slowed down under all of it.
    os.environ["NUMBA_CPU_FEATURES"] = f"{get_host_cpu_features()},-prefer-256-bit"
_config.reload_config()


class _Compilations(Listener):
    """Compilations under way, and the time that all took [s], for what is shown; kernels found on disk are none.

    Meanwhile no cycles are collected: most objects of a compilation live to its end, and looking through them again and
    again takes 3 to 12 % of the time.
    """

    under_way = 0
    seconds = 0.0
    """With the time that this process waited for another one that compiled the same kernel."""
    _collected = False
    _begun = 0.0

    def on_start(self, _: Event) -> None:
        if self.under_way == 0:
            self._begun = time.monotonic()
            self._collected = gc.isenabled()
            gc.disable()
        self.under_way += 1

    def on_end(self, _: Event) -> None:
        self.under_way -= 1
        if self.under_way == 0:
            self.seconds += time.monotonic() - self._begun
            if self._collected:
                gc.enable()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count a wait for the machine code of another process as compiling."""
        begun = time.monotonic()
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
            self.seconds += (time.monotonic() - begun) * (self.under_way == 0)


compilations = _Compilations()
register("numba:compile", compilations)

_LONGEST_WAIT_S = 120.0
"""Wait for another process that compiles the same kernel; many times what any kernel takes."""


class _InTurns(FunctionCache):
    """Machine code on disk that one process at a time adds to; the others wait, and read what it has compiled.

    Workers and sessions of tests begin with the same kernels. Without a lock each compiled them all, and of two that
    wrote the list of a kernel's signatures at once one lost its entry.
    """

    _lock: int | None = None

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        # numba looks at the file of a kernel alone; its parts may lie in those beside it.
        stamp = self._impl.locator.get_source_stamp(), _folder_digest(Path(function.__code__.co_filename).parent)
        self._cache_file = IndexDataCacheFile(
            cache_path=self._cache_path, filename_base=self._impl.filename_base, source_stamp=stamp
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a kernel for argument types, or None: then this process compiles it, and `save_overload` follows."""
        found = super().load_overload(sig, target_context)
        if found is None and self._take():
            found = super().load_overload(sig, target_context)
            if found is not None:
                self._give_back()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a kernel on disk, and let other processes go on."""
        try:
            super().save_overload(sig, data)
        finally:
            self._give_back()

    def _take(self) -> bool:
        """Return True once no other process compiles this kernel; False where files cannot be locked."""
        if self._lock is not None:
            return False
        try:
            Path(self.cache_path).mkdir(parents=True, exist_ok=True)
            lock = os.open(Path(self.cache_path) / f"{self._impl.filename_base}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        except OSError:
            return False
        try:
            if _locked(lock):
                self._lock = lock
                return True
            with compilations.waiting():
                end = time.monotonic() + _LONGEST_WAIT_S
                while time.monotonic() < end:
                    time.sleep(0.02)
                    if _locked(lock):
                        self._lock = lock
                        return True
        except OSError:  # a file system without locks
            pass
        finally:
            if self._lock is None:
                os.close(lock)
        return False

    def _give_back(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@lru_cache
def _folder_digest(folder: Path) -> str:
    found = hashlib.sha256()
    for source in sorted(folder.glob("*.py")):
        found.update(source.read_bytes())
    return found.hexdigest()


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _kept(compiled: Any) -> Any:
    """Give a kernel the cache on disk that processes share in turns."""
    compiled._cache = _InTurns(compiled.py_func)
    return compiled


_OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    "boundscheck": False,
    "no_cfunc_wrapper": True,  # none is called from C
}
# Without `_nrt` references to arrays are not counted, which costs as much as the arithmetic of a short loop.
_LEAN: dict[str, Any] = {**_OPTIONS, "fastmath": _FASTMATH, "_nrt": False}


def kernel(function: Callable[..., Any]) -> Any:
    """A function called from Python: compiled at its first call, its machine code found on disk later."""
    return _kept(_njit(**_OPTIONS, nogil=True, fastmath=_FASTMATH)(function))


def lean_kernel(function: Callable[..., Any]) -> Any:
    """A kernel that allocates nothing and counts no references, as no part does.

    It compiles faster: arrays for its own use come from Python, and loops assign element by element. numba compiles
    some forty functions for `a[:] = b`.
    """
    return _kept(_njit(**_LEAN, nogil=True)(function))


def contracted_kernel(function: Callable[..., Any]) -> Any:
    """A kernel that rounds as XLA does: sums in the order they are written, products fused into them."""
    return _kept(_njit(**_OPTIONS, nogil=True, fastmath={"contract"})(function))


def exact_kernel(function: Callable[..., Any]) -> Any:
    """A kernel that rounds as NumPy does: sums in the order they are written, divisions that stay divisions."""
    return _kept(_njit(**_OPTIONS, nogil=True)(function))


# LLVM's form of a part is copied into each kernel that calls it. Machine code of the part alone, which only Python
# could call, took an eighth of the time of a first call.


class _NoMachineCode:
    """Codegen of a part as numba's `get_executable` asks for it: there is no environment to set."""

    def set_env(self, *_: Any) -> None:
        pass


class _PartLibrary(JITCodeLibrary):
    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    @property
    def codegen(self) -> _NoMachineCode:
        return _NoMachineCode()


@register_pass(mutates_CFG=False, analysis_only=True)
class _KeepToLlvm(FunctionPass):
    _name = "keep_to_llvm"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Give the library that lowering would else create, and promise that arguments do not overlap."""
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.flags.noalias = True
        return False


class _PartCompiler(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_KeepToLlvm, NopythonTypeInference)
        passes.finalize()
        return [passes]


_HOOKS = ("_finalize_final_module", "_finalize_dynamic_globals", "_verify_declare_only_symbols")

# numba does not document these hooks: without them parts are compiled as functions.
_PART: dict[str, Any] = {"pipeline_class": _PartCompiler} if all(hasattr(JITCodeLibrary, h) for h in _HOOKS) else {}


# LLVM links all calls of a name to the copy that is loaded first, of whichever kernel or of the part compiled alone.
# Copies may add up in different orders. So a kernel contains its parts, and calls only those that compute integers.


def inlined(function: Callable[..., Any]) -> Any:
    """A part: LLVM turns its loops into vectors alone, and then puts it into every function that calls it.

    What it writes through one argument it must not read or write through another: LLVM does not ask before each loop
    whether arrays overlap, which took as long as the loop over a vector. Rows of one array are arguments of their own.

    For one loop. A part with parts of its own is compiled with all of them, and once more in its caller.
    """
    return _register_jitable(**_LEAN, **_PART, forceinline=True)(function)


def contracted(function: Callable[..., Any]) -> Any:
    """An `inlined` part that adds up in the order in which it is written, with products fused into sums."""
    return _register_jitable(**{**_LEAN, "fastmath": {"contract"}}, **_PART, forceinline=True)(function)


def shared(function: Callable[..., Any]) -> Any:
    """A long part of integers alone that kernels call: compiled once, however many places call it.

    Every copy returns the same integers, so it does not matter which copy is called.
    """
    return _register_jitable(**_LEAN, **_PART, forceinline=False)(function)


def spliced(function: Callable[..., Any]) -> Any:
    """A function that numba writes into its caller before anything is compiled.

    For functions that choose between parts, or call one after the other.
    """
    return _njit(**_LEAN, inline="always")(function)


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


def aligned_zeros(shape: int | tuple[int, ...], kind: type[Any]) -> NDArray[Any]:
    """Zeros from the start of a cache line on: elsewhere every vector of 512 bits lies across two lines."""
    size = math.prod(np.atleast_1d(shape)) * np.dtype(kind).itemsize
    room = np.zeros(size + _LINE_BYTES, np.uint8)
    start = -room.ctypes.data % _LINE_BYTES
    zeros: NDArray[Any] = room[start : start + size].view(kind).reshape(shape)
    return zeros


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
