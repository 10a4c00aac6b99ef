#!/usr/bin/env bash
# py3gpp 0.6: `nrPathLoss` of scenario RMa is up to 43 dB off TR 38.901 Table 7.4.1-1, with and without line of sight.
#
# Beyond the breakpoint d_BP the table has PL_2 = PL_1(d_BP) + 40 log10(d_3D / d_BP). The function takes PL_1 at d_3D, and
# adds 10 log10(d_BP). Without line of sight the table has - (3.2 (log10(11.75 h_UT))^2 - 4.97); the function squares 3.2
# with the logarithm, and the sign of 4.97 is turned.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/python" -m pip install --quiet py3gpp==0.6.0
"$folder/bin/python" - > "$folder/found" <<'PROGRAM'
from math import log10, pi
import numpy as np
from py3gpp import nrPathLossConfig
from py3gpp.nrPathLoss import nrPathLoss

config = nrPathLossConfig()
config.Scenario = "RMa"
frequency, h, w, h_bs, h_ut = 3.5e9, config.BuildingHeight, config.StreetWidth, 35.0, 1.5


def near(d):
    fspl = 20 * log10(40 * pi * d * frequency / 1e9 / 3)
    return fspl + min(0.03 * h**1.72, 10) * log10(d) - min(0.044 * h**1.72, 14.77) + 0.002 * log10(h) * d


def table(d_2d, sight):
    d = (d_2d**2 + (h_bs - h_ut) ** 2) ** 0.5
    breakpoint = 2 * pi * h_bs * h_ut * frequency / 3e8
    loss = near(d) if d_2d <= breakpoint else near(breakpoint) + 40 * log10(d / breakpoint)
    if sight:
        return loss
    without = 161.04 - 7.1 * log10(w) + 7.5 * log10(h) - (24.37 - 3.7 * (h / h_bs) ** 2) * log10(h_bs)
    without += (43.42 - 3.1 * log10(h_bs)) * (log10(d) - 3) + 20 * log10(frequency / 1e9)
    return max(loss, without - (3.2 * log10(11.75 * h_ut) ** 2 - 4.97))


for d_2d, sight in ((1000.0, True), (6000.0, True), (1000.0, False), (5000.0, False)):
    theirs, _ = nrPathLoss(config, frequency, sight, np.array([0, 0, h_bs]), np.array([d_2d, 0, h_ut]))
    ours = table(d_2d, sight)
    print(f"{d_2d:.0f} m, line of sight {sight}: {theirs:.2f} dB, table {ours:.2f}, off {theirs - ours:+.2f}")
PROGRAM
cat "$folder/found"
# Fails where the output is another one than was seen:
diff "$folder/found" - <<'SEEN'
1000 m, line of sight True: 105.46 dB, table 105.46, off +0.00
6000 m, line of sight True: 171.95 dB, table 129.14, off +42.81
1000 m, line of sight False: 109.55 dB, table 130.42, off -20.87
5000 m, line of sight False: 165.76 dB, table 157.42, off +8.34
SEEN
