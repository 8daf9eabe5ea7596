# `sectile run --check` of the kernels for inference, from .npy files.
import math
import random
import sys

from cli import done, main, read_npy, write_npy

DEVICE = ("--device", sys.argv[2])
rng = random.Random(11)


def floats(count, spread=1.0):
    return [rng.gauss(0, spread) for _ in range(count)]


def test_attention_merge():
    parts, batch, heads, rows, width = 3, 1, 2, 5, 24
    lse = floats(parts * batch * heads * rows, 2)
    for part in range(parts):
        lse[part * batch * heads * rows] = -math.inf
    write_npy("po", "<f2", (parts, batch, heads, rows, width), floats(len(lse) * width))
    write_npy("pl", "<f4", (parts, batch, heads, rows), lse)
    done("run", "attention_merge", "--in", "partial_o=po", "partial_lse=pl", "--out", "o=o", "lse=l", "--check",
         *DEVICE)  # fmt: skip
    assert read_npy("o")[1] == (batch, heads, rows, width)
    assert read_npy("o")[2][:width] == [0] * width and read_npy("l")[2][0] == -math.inf


main(globals())
