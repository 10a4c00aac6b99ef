"""Digits of 8 x 8 pixels that come with scikit-learn."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from fl.data.data_set import DataSet, ImageFacts, Pair, data_sets

_SPLIT_SEED = 1797


@data_sets.register
class Digits(DataSet):
    """scikit-learn's digits, 1,797 images of 8 x 8 with pixels 0 to 16; they need no download."""

    facts: ClassVar[ImageFacts | None] = ImageFacts(
        image_shape=(8, 8, 1), num_classes=10, num_train=1437, num_test=360, largest_pixel=16
    )
    comes_with: ClassVar[str] = "scikit-learn"

    name: Literal["digits"] = "digits"

    def read(self) -> tuple[Pair, Pair]:
        """See `DataSet.read`: split label by label, the same in every trial.

        Of n_c images with label c the test set has 360 n_c / 1797, by largest remainders.
        """
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        counts = np.bincount(labels)
        exact = 360 * counts / counts.sum()
        num_test = np.floor(exact).astype(np.int64)
        short = 360 - int(num_test.sum())
        num_test[np.argsort(num_test - exact, kind="stable")[:short]] += 1
        generator = np.random.Generator(np.random.Philox(_SPLIT_SEED))
        is_test = np.zeros(len(labels), np.bool_)
        for label, count in enumerate(num_test):
            is_test[generator.permutation(np.flatnonzero(labels == label))[:count]] = True
        pixels = images.astype(np.uint8)[..., None].reshape(-1, 8, 8, 1)
        return (pixels[~is_test], labels[~is_test]), (pixels[is_test], labels[is_test])
