"""scikit-learn's digits: 1,797 images of 8 x 8 that come with the library, the offline default."""

from __future__ import annotations

import numpy as np

from fl.data.arrays import Arrays, checked_arrays
from fl.data.facts import image_facts

_SPLIT_SEED = 1797


def read_digits() -> Arrays:
    """1437 train and 360 test images, pixels 0 .. 16, split label by label, the same in every trial.

    The library has no split of its own. Of n_c images with label c the test set has 360 n_c / 1797, rounded so that
    the sum is met (largest remainders).
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    facts = image_facts("digits")
    counts = np.bincount(labels, minlength=facts.num_classes)
    exact = facts.num_test * counts / counts.sum()
    num_test = np.floor(exact).astype(np.int64)
    short = facts.num_test - int(num_test.sum())
    num_test[np.argsort(num_test - exact, kind="stable")[:short]] += 1
    generator = np.random.Generator(np.random.Philox(_SPLIT_SEED))
    is_test = np.zeros(len(labels), np.bool_)
    for label in range(facts.num_classes):
        is_test[generator.permutation(np.flatnonzero(labels == label))[: num_test[label]]] = True
    pixels = images.astype(np.uint8).reshape(-1, *facts.image_shape)
    return checked_arrays(
        "digits",
        train=(pixels[~is_test], labels[~is_test]),
        test=(pixels[is_test], labels[is_test]),
        source="scikit-learn's digits",
    )
