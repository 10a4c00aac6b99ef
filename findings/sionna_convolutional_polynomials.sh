#!/usr/bin/env bash
# Sionna 2.2.0: `polynomial_selector(1/3, 7)` has free distance 14, where the best code of this size has 15.
#
# Its polynomials are 171 145 133 (octal). Tables of the best codes of rate 1/3 and constraint length 7 (Proakis, Digital
# Communications, Table 8.3-2; Lin and Costello, Table 12.1) have 133 145 175. The program finds both distances by the
# shortest path through the trellis.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/python" -m pip install --quiet sionna-no-rt==2.2.0 torch==2.13.0
"$folder/bin/python" - > "$folder/found" <<'PROGRAM'
from heapq import heappop, heappush
from sionna.phy.fec.conv.utils import polynomial_selector


def free_distance(polynomials, memory):
    reached, waiting = set(), [(sum(p >> memory & 1 for p in polynomials), 1 << memory >> 1)]
    while True:
        weight, state = heappop(waiting)
        if state == 0:
            return weight
        if state in reached:
            continue
        reached.add(state)
        for bit in (0, 1):
            register = bit << memory | state
            more = sum((register & p).bit_count() & 1 for p in polynomials)
            heappush(waiting, (weight + more, register >> 1))


theirs = [int(word, 2) for word in polynomial_selector(1 / 3, 7)]
print("polynomials", [oct(p)[2:] for p in theirs], "free distance", free_distance(theirs, 6))
print("polynomials", ["133", "145", "175"], "free distance", free_distance([0o133, 0o145, 0o175], 6))
PROGRAM
cat "$folder/found"
# Fails where the output is another one than was seen:
diff "$folder/found" - <<'SEEN'
polynomials ['171', '145', '133'] free distance 14
polynomials ['133', '145', '175'] free distance 15
SEEN
