"""Start of a process that computes: its threads, and TensorFlow, only when something imports it, and quietly.

The last bits of a sum depend on how many parts it was made of. Matrix products, sums over whole arrays and
factorisations differ in TensorFlow and BLAS with the number of threads (about 1e-7 of a float32). These have one thread
each, in every process, so that numbers are the same on any machine and for any number of workers. Kernels whose threads
share no sum, and independent operations of TensorFlow, have all cores that the process may use.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from phy.numerics.workers import THREADS_VARIABLE, available_threads

_ALWAYS_ONE = (
    "TF_NUM_INTRAOP_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_ALL_CORES = (THREADS_VARIABLE, "NUMBA_NUM_THREADS", "TF_NUM_INTEROP_THREADS")


def threads_per_worker(workers: int) -> int:
    """Return an equal share of the cores that this process may use, at least one."""
    return max(available_threads() // workers, 1)


def thread_variables(threads: int) -> Mapping[str, str]:
    """Return the environment of a process that may use `threads` cores; read by libraries when they are loaded."""
    return dict.fromkeys(_ALWAYS_ONE, "1") | dict.fromkeys(_ALL_CORES, str(threads))


def prepare_tensorflow() -> None:
    """Limit the threads of this process, and let TensorFlow start quietly when it is imported.

    The process has the cores of PHYLOOP_THREADS, or all that it may use. TensorFlow takes seconds and hundreds of
    megabytes to load; fused kernels run without it.
    """
    from threadpoolctl import threadpool_limits

    # Native code reads the level when TensorFlow is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    variables = thread_variables(available_threads())
    os.environ.update({name: value for name, value in variables.items() if name != THREADS_VARIABLE})
    threadpool_limits(1)  # of libraries that are loaded already; the others read the environment
    if "tensorflow" in sys.modules:
        _configure(sys.modules["tensorflow"])
    elif _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


class _Finder:
    """Finds TensorFlow for the import system, and configures it once it is loaded."""

    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "tensorflow":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_quietly(module: ModuleType) -> None:
            with quiet_standard_error():
                load(module)
                _configure(module)

        spec.loader.exec_module = load_quietly  # type: ignore[method-assign]
        return spec


def _configure(tensorflow: ModuleType) -> None:
    # Another program in this process may have started TensorFlow already, with its own number of threads.
    with suppress(RuntimeError):
        tensorflow.config.threading.set_intra_op_parallelism_threads(1)
    # TensorFlow writes about absent GPUs when it looks for devices.
    tensorflow.config.list_logical_devices()
    # Several links in one process share a function's name, which TensorFlow takes for retracing.
    tensorflow.get_logger().setLevel("ERROR")


@contextmanager
def quiet_standard_error() -> Iterator[None]:
    """Hold back what native code writes to standard error; show it only if the block raises."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        try:
            yield
        except Exception:
            aside.seek(0)
            os.write(kept, aside.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
