#!/usr/bin/env bash
# py3gpp 0.6: `nrLDPCEncode` raises ValueError for blocks of base graph 2 with K_b below 10.
#
# TS 38.212 5.2.2 takes K_b = 6, 8 or 9 for up to 640 bits to find the lifting size; the code still has 10 columns of
# information and filler bits. The encoder cuts its matrices behind K_b columns, and the segment has 10 Z_c bits.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/python" -m pip install --quiet py3gpp==0.6.0
"$folder/bin/python" - > "$folder/found" <<'PROGRAM'
import numpy as np
from py3gpp import nrCodeBlockSegmentLDPC, nrLDPCEncode

for bits in (100, 400, 1000):
    blocks = nrCodeBlockSegmentLDPC(np.zeros(bits, int), 2)
    try:
        print(bits, "bits:", nrLDPCEncode(blocks, 2).shape[0], "coded bits")
    except ValueError as error:
        print(bits, "bits: ValueError")
PROGRAM
cat "$folder/found"
# Fails where the output is another one than was seen:
diff "$folder/found" - <<'SEEN'
100 bits: ValueError
400 bits: ValueError
1000 bits: 5200 coded bits
SEEN
