"""The polar code of TS 38.212 read clause by clause, bit by bit, in plain Python; of the product it has one table."""

from __future__ import annotations

from importlib.resources import files
from math import ceil, floor, log2

SUB_BLOCKS = [0, 1, 2, 4, 3, 5, 6, 7, 8, 16, 9, 17, 10, 18, 11, 19, 12, 20, 13, 21, 14, 22, 15, 23, 24, 25, 26, 28]
SUB_BLOCKS += [27, 29, 30, 31]
CRC6, CRC11 = [1, 1, 0, 0, 0, 0, 1], [1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1]


def reliabilities() -> list[int]:
    """Table 5.3.1.2-1, the least reliable first."""
    text = files("phy.coding.polar").joinpath("reliability.csv").read_text()
    return [int(number) for number in text.replace("\n", ",").split(",") if number.strip()]


def with_crc(message: list[int]) -> list[int]:
    """5.1 with the polynomial of 6.3.1.2.1, by long division."""
    generator = CRC6 if len(message) <= 19 else CRC11
    rest = message + [0] * (len(generator) - 1)
    for at in range(len(message)):
        if rest[at]:
            for power, tap in enumerate(generator):
                rest[at + power] ^= tap
    return message + rest[len(message) :]


def code_block(c: list[int], sent: int) -> list[int]:
    """5.3.1, 5.4.1.1, 5.4.1.2 and 5.4.1.3 of K bits with their CRC, n_max = 10, uplink."""
    k = len(c)
    n1 = ceil(log2(sent))
    if sent <= 9 / 8 * 2 ** (n1 - 1) and k / sent < 9 / 16:
        n1 -= 1
    size = 2 ** max(min(n1, ceil(log2(8 * k)), 10), 5)
    num_parity, by_weight = (3, int(sent - k + 3 > 192)) if 18 <= k <= 25 else (0, 0)
    interleaved = [SUB_BLOCKS[floor(32 * n / size)] * (size // 32) + n % (size // 32) for n in range(size)]
    frozen: set[int] = set()
    if sent < size:
        if k / sent <= 7 / 16:
            frozen |= {interleaved[n] for n in range(size - sent)}
            last = ceil(3 * size / 4 - sent / 2) if sent >= 3 * size / 4 else ceil(9 * size / 16 - sent / 4)
            frozen |= set(range(last))
        else:
            frozen |= {interleaved[n] for n in range(sent, size)}
    order = [n for n in reliabilities() if n < size and n not in frozen][-(k + num_parity) :]
    parity = set(order[: num_parity - by_weight])
    if by_weight:
        rest = order[num_parity:]
        least = min(bin(n).count("1") for n in rest)
        parity.add([n for n in rest if bin(n).count("1") == least][-1])
    u, y, message = [], [0] * 5, iter(c)
    for n in range(size):
        y = [*y[1:], y[0]]
        if n not in order:
            u.append(0)
        elif n in parity:
            u.append(y[0])
        else:
            u.append(next(message))
            y[0] ^= u[-1]
    d = [sum(u[m] for m in range(size) if n & m == n) % 2 for n in range(size)]
    buffer = [d[interleaved[n]] for n in range(size)]
    first = size - sent if sent < size and k / sent <= 7 / 16 else 0
    e = [buffer[(first + n) % size] for n in range(sent)]
    side = next(side for side in range(1, sent + 1) if side * (side + 1) // 2 >= sent)
    rows, at = [], 0
    for row in range(side):
        rows.append(e[at : at + side - row])
        at += side - row
    return [rows[row][column] for column in range(side) for row in range(side - column) if column < len(rows[row])]


def control_information(message: list[int], sent: int) -> list[int]:
    """5.2.1, 6.3.1.2.1, 6.3.1.4.1 and 5.5 of A bits sent as E_UCI bits."""
    a = len(message)
    blocks = 2 if (a >= 360 and sent >= 1088) or a >= 1013 else 1
    message = [0] * (-a % blocks) + message
    each, out = len(message) // blocks, []
    for block in range(blocks):
        out += code_block(with_crc(message[block * each : (block + 1) * each]), sent // blocks)
    return out + [0] * (sent - len(out))
