#!/usr/bin/env bash
# mat73 0.65 against SciPy 1.17.1: the same MATLAB array has another rank when it was saved with -v7.3 than with -v7.
#
# MATLAB arrays have at least two axes, and SciPy keeps them. mat73 returns a row and a column alike as one axis, and a
# number as none, while a 1 x 3 x 2 array keeps its three: an impulse response of one snapshot loses the axis of snapshots
# just when it has no third one. A matrix of logicals is bool in mat73 and uint8 in SciPy.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet mat73==0.65 scipy==1.17.1 h5py==3.16.0 numpy==2.4.6
(cd "$folder" && venv/bin/python - > found) <<'PROGRAM'
import h5py
import mat73
import numpy as np
from scipy.io import loadmat, savemat

SHAPES = {"row": (1, 5), "column": (5, 1), "number": (1, 1), "cube": (1, 3, 2)}
arrays = {name: np.zeros(shape) for name, shape in SHAPES.items()} | {"mask": np.ones((2, 2), bool)}
savemat("v5.mat", arrays)
with h5py.File("v73.mat", "w", userblock_size=512) as file:
    for name, values in arrays.items():
        kind = "logical" if values.dtype == bool else "double"
        made = file.create_dataset(name, data=values.T.astype(np.uint8 if kind == "logical" else float))
        made.attrs["MATLAB_class"] = np.bytes_(kind)
        if kind == "logical":
            made.attrs["MATLAB_int_decode"] = np.int32(1)
with open("v73.mat", "r+b") as file:
    file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
five, seven = loadmat("v5.mat"), mat73.loadmat("v73.mat")
for name in arrays:
    print(f"{name}: scipy {five[name].shape} {five[name].dtype}, mat73 {np.shape(seven[name])} {seven[name].dtype}")
PROGRAM
cat "$folder/found"
# Fails where the output is another one than was seen:
diff "$folder/found" - <<'SEEN'
row: scipy (1, 5) float64, mat73 (5,) float64
column: scipy (5, 1) float64, mat73 (5,) float64
number: scipy (1, 1) float64, mat73 () float64
cube: scipy (1, 3, 2) float64, mat73 (1, 3, 2) float64
mask: scipy (2, 2) uint8, mat73 (2, 2) bool
SEEN
