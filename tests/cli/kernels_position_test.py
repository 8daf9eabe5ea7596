# `sectile run` of the kernels for positions, from files.
import random
import sys

from cli import done, main, read_npy, write_npy

DEVICE = ("--device", sys.argv[2])
rng = random.Random(11)


def write_floats(name, descr, *shape):
    count = 1
    for extent in shape:
        count *= extent
    write_npy(name, descr, shape, [rng.gauss(0, 1) for _ in range(count)])


def run(kernel, inputs, *words):
    done("run", kernel, "--in", *(f"{name}={name}" for name in inputs), *words, "--check", *DEVICE)


def test_rope():
    write_floats("x", "<f2", 2, 3, 20, 32)
    write_npy("positions", "<i4", (2, 20), [rng.randint(0, 1000) for _ in range(40)])
    run("rope", ["x", "positions"], "--out", "y=y", "--opt", "style=interleaved", "rotary=16")
    assert read_npy("y")[1] == (2, 3, 20, 32)
    write_floats("dy", "<f4", 2, 20, 3, 32)
    run("rope_backward", ["dy"], "--opt", "layout=bshd", "offset=5")


main(globals())
