"""Start of TensorFlow in a process that computes: only when something imports it, with our threads, and quietly."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from scenarios.engine.threads import limit_threads


def prepare_tensorflow() -> None:
    """Limit the threads of this process, and let TensorFlow start quietly when it is imported.

    TensorFlow takes seconds and hundreds of megabytes to load. Fused kernels run without it.
    """
    # Native code reads the level when TensorFlow is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    limit_threads()
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
