"""Numbers rounded to bfloat16 in float32, and where TensorFlow is asked for bfloat16 itself."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fl.local.config import LocalConfig
from fl.local.gradients import number_format
from fl.local.rounding import rounded, rounded_weights
from phy.engines import choice
from phy.numerics.lazy_tensorflow import tf

VALUES = np.concatenate(
    [np.random.default_rng(4).normal(size=1000), [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3.4e38, 1.00390625]]
).astype(np.float32)
BACK = np.random.default_rng(5).normal(size=VALUES.shape).astype(np.float32)


def of_foreign_program(values: np.ndarray) -> np.ndarray:
    return values.astype(ml_dtypes.bfloat16).astype(np.float32)


@pytest.mark.parametrize("compiled", [True, False])
def test_numbers_and_what_comes_back_are_rounded_as_by_ml_dtypes(compiled: bool) -> None:
    def both(given: tf.Tensor, back: tf.Tensor) -> list[tf.Tensor]:
        found = []
        for function in (rounded, rounded_weights):
            with tf.GradientTape() as tape:
                tape.watch(given)
                output = function(given)
            found += [output, tape.gradient(output, given, output_gradients=back)]
        return found

    run = tf.function(both, autograph=False) if compiled else both
    values, back, weights, sums = run(tf.constant(VALUES), tf.constant(BACK))
    np.testing.assert_array_equal(values, of_foreign_program(VALUES))
    np.testing.assert_array_equal(back, of_foreign_program(BACK))
    np.testing.assert_array_equal(weights, of_foreign_program(VALUES))
    np.testing.assert_array_equal(sums, BACK)


NEW = frozenset(["fpu", "avx2", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_bf16"])
OLD = frozenset(["fpu", "avx2", "fma"])


@pytest.mark.parametrize(
    ("instructions", "variables", "native"),
    [
        (NEW, {}, True),
        (NEW - {"avx512_bf16"}, {}, True),
        (NEW, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}, True),
        (NEW, {"ONEDNN_MAX_CPU_ISA": "avx2"}, False),
        (NEW, {"DNNL_MAX_CPU_ISA": "SSE41"}, False),
        (NEW, {"ONEDNN_MAX_CPU_ISA": "AVX2_VNNI"}, False),
        (NEW, {"TF_ENABLE_ONEDNN_OPTS": "0"}, False),
        (NEW - {"avx512bw"}, {}, False),
        (OLD, {}, False),
        (frozenset(), {}, False),
    ],
)
def test_layers_are_given_bfloat16_where_onednn_has_its_kernels(
    instructions: frozenset[str], variables: dict[str, str], native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for what it does not have, oneDNN ends the process."""
    monkeypatch.setattr(choice, "instructions", lambda: instructions)
    monkeypatch.setattr(choice, "sees_gpu", lambda: False)
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert number_format(LocalConfig(precision="bfloat16")) == (("bfloat16", False) if native else ("float32", True))
    assert number_format(LocalConfig()) == ("float32", False)
    monkeypatch.setattr(choice, "sees_gpu", lambda: True)
    assert number_format(LocalConfig(precision="bfloat16")) == ("bfloat16", False)
