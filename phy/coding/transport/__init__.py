"""Transport blocks of 3GPP: check sums on packed bits, scrambling of coded bits, and block sizes."""
