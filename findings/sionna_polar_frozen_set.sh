#!/usr/bin/env bash
# Sionna 2.2.0: the 5G polar code puts information on a bit that TS 38.212 5.4.1.1 freezes, where E = 3 N / 4.
#
# `Polar5GEncoder(23, 96)` codes 23 bits and 11 bits of CRC: K = 34, N = 128, K / E <= 7 / 16, so that bits are punctured.
# For E >= 3 N / 4 = 96 the clause freezes u_0 to u_(ceil(3 N / 4 - E / 2) - 1) = u_47. Sionna leaves u_47 free, and it
# carries information.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/python" -m pip install --quiet sionna-no-rt==2.2.0 torch==2.13.0
"$folder/bin/python" - > "$folder/found" <<'PROGRAM'
from math import ceil
import numpy as np
from sionna.phy.fec.polar import Polar5GEncoder

k, e = 23, 96
encoder = Polar5GEncoder(k, e)
information = np.asarray(encoder.info_pos)
n = len(information) + len(encoder.frozen_pos)
first_free = ceil(3 * n / 4 - e / 2) if e >= 3 * n / 4 else ceil(9 * n / 16 - e / 4)
print("N", n, "K", len(information))
print("first bit that TS 38.212 leaves free", first_free)
print("first information bit of Sionna", int(information.min()))
PROGRAM
cat "$folder/found"
# Fails where the output is another one than was seen:
diff "$folder/found" - <<'SEEN'
N 128 K 34
first bit that TS 38.212 leaves free 48
first information bit of Sionna 47
SEEN
