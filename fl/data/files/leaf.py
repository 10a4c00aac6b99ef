"""The JSON files of LEAF (Caldas et al. 2018): users, and the samples of each.

    {"users": [..], "num_samples": [..], "user_data": {user: {"x": [[..], ..], "y": [..]}}}

Pixels of its FEMNIST are 1.0 for the paper and 0.0 for ink, the inverse of MNIST; they stay as they are.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from fl.data.arrays import reading
from fl.data.files.parts import FilePart, refuse


def read_leaf(path: Path) -> FilePart:
    """Return the samples of all users. LearningError for another layout, and for samples that are words."""
    with reading("JSON file of LEAF", source=path):
        content = json.loads(path.read_text(encoding="utf-8"))
        users = content["user_data"]
        x, y, owner = [], [], []
        for user, data in users.items():
            x += data["x"]
            y += data["y"]
            owner += [user] * len(data["y"])
    if not y or len(x) != len(y):
        refuse(path, f"{len(x)} samples have {len(y)} labels", "fetch the file again")
    if isinstance(x[0], str):
        refuse(path, "its samples are text", "write numbers, such as embeddings, for each sample")
    with reading("JSON file of LEAF", source=path):
        values = np.asarray(x, np.float32)
    if values.ndim == 2 and (side := round(values.shape[1] ** 0.5)) ** 2 == values.shape[1] and side == 28:
        values = values.reshape(-1, side, side, 1)
    return FilePart(x=values, y=np.asarray(y), owner=np.array(owner))
