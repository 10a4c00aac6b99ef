"""The turbo code of TS 36.212 read clause by clause, bit by bit, in plain Python; of the product it has one table."""

from __future__ import annotations

from importlib.resources import files

COLUMNS = [0, 16, 8, 24, 4, 20, 12, 28, 2, 18, 10, 26, 6, 22, 14, 30, 1, 17, 9, 25, 5, 21, 13, 29, 3, 19, 11, 27, 7]
COLUMNS += [23, 15, 31]
CRC24B = [1, 1, *[0] * 16, 1, 1, 0, 0, 0, 1, 1]


def interleavers() -> dict[int, tuple[int, int]]:
    """f1 and f2 by K, Table 5.1.3-3."""
    lines = files("phy.coding.turbo").joinpath("interleavers.csv").read_text().split()[1:]
    return {k: (f1, f2) for k, f1, f2 in ([int(number) for number in line.split(",")] for line in lines)}


def code_blocks(bits: list[int]) -> list[list[int | None]]:
    """5.1.2: code blocks with fillers None and CRC24B."""
    table, b = sorted(interleavers()), len(bits)
    check = 0 if b <= 6144 else 24
    count = 1 if b <= 6144 else -(-b // (6144 - 24))
    total = b + count * check
    larger = min(k for k in table if count * k >= total)
    smaller, few = 0, 0
    if count > 1:
        smaller = max(k for k in table if k < larger)
        few = (count * larger - total) // (larger - smaller)
    fillers = (count - few) * larger + few * smaller - total
    blocks, at = [], 0
    for r in range(count):
        size = smaller if r < few else larger
        empty = fillers if r == 0 else 0
        own = bits[at : at + size - empty - check]
        at += len(own)
        rest = own + [0] * check
        for place in range(len(own) if check else 0):
            if rest[place]:
                for power, tap in enumerate(CRC24B):
                    rest[place + power] ^= tap
        blocks.append([None] * empty + own + rest[len(own) :])
    return blocks


def component(bits: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Parity bits, then x and z of the tail, 5.1.3.2.1 and 5.1.3.2.2."""
    s, parity, x, z = [0, 0, 0], [], [], []
    for bit in [*bits, None, None, None]:
        back = s[1] ^ s[2]
        taken = back if bit is None else bit
        a = taken ^ back
        out = a ^ s[0] ^ s[2]
        if bit is None:
            x.append(taken)
            z.append(out)
        else:
            parity.append(out)
        s = [a, s[0], s[1]]
    return parity, x, z


def streams(block: list[int | None]) -> list[list[int | None]]:
    """d0, d1 and d2 of a code block, 5.1.3.2."""
    k = len(block)
    f1, f2 = interleavers()[k]
    c = [bit or 0 for bit in block]
    z1, x, z = component(c)
    z2, x2, zz = component([c[(f1 * i + f2 * i * i) % k] for i in range(k)])
    empty = sum(bit is None for bit in block)
    d0 = [*block, x[0], z[1], x2[0], zz[1]]
    d1 = [*[None] * empty, *z1[empty:], z[0], x[2], zz[0], x2[2]]
    d2 = [*z2, x[1], z[2], x2[1], zz[2]]
    return [d0, d1, d2]


def matched(d: list[list[int | None]], sent: int, version: int) -> list[int]:
    """5.1.4.1 with N_cb = K_w."""
    steps = len(d[0])
    rows = -(-steps // 32)
    padded = [[None] * (32 * rows - steps) + stream for stream in d]
    v = [[stream[32 * row + COLUMNS[column]] for column in range(32) for row in range(rows)] for stream in padded[:2]]
    size = 32 * rows
    v.append([padded[2][(COLUMNS[k // rows] + 32 * (k % rows) + 1) % size] for k in range(size)])
    w = v[0] + [bit for pair in zip(v[1], v[2], strict=True) for bit in pair]
    start = rows * (2 * -(-len(w) // (8 * rows)) * version + 2)
    e, j = [], 0
    while len(e) < sent:
        bit = w[(start + j) % len(w)]
        if bit is not None:
            e.append(bit)
        j += 1
    return e


def transport_block(bits: list[int], sent: int, bits_per_symbol: int, version: int) -> list[int]:
    """5.1.2 to 5.1.5 of a transport block with its CRC, one layer."""
    blocks = code_blocks(bits)
    symbols, count = sent // bits_per_symbol, len(blocks)
    out: list[int] = []
    for r, block in enumerate(blocks):
        share = symbols // count if r <= count - symbols % count - 1 else -(-symbols // count)
        out += matched(streams(block), bits_per_symbol * share, version)
    return out
