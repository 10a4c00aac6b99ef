"""Sionna 2.2.0: `polynomial_selector(1/3, 7)` has free distance 14, where the best code of this size has 15.

Its polynomials are 171 145 133 (octal). Tables of the best codes of rate 1/3 and constraint length 7 (Proakis, Digital
Communications, Table 8.3-2; Lin and Costello, Table 12.1) have 133 145 175. The program finds both distances by the
shortest path through the trellis.
"""

from fresh import report

PROGRAM = """
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
"""
SEEN = """
polynomials ['171', '145', '133'] free distance 14
polynomials ['133', '145', '175'] free distance 15
"""

if __name__ == "__main__":
    report(PROGRAM, "sionna-no-rt==2.2.0", "torch==2.13.0", seen=SEEN)
