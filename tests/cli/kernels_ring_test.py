# `sectile run` of ring attention's slices on one device, from files.
import random
import sys

from cli import done, main, read_npy, write_npy

DEVICE = ("--device", sys.argv[2])
rng = random.Random(5)


def write_floats(name, descr, *shape):
    count = 1
    for extent in shape:
        count *= extent
    write_npy(name, descr, shape, [rng.gauss(0, 1) for _ in range(count)])


def run(kernel, inputs, *words):
    done("run", kernel, "--in", *(f"{name}={name}" for name in inputs), *words, "--check", *DEVICE)


def test_slices_and_their_gradients():
    write_floats("q", "<f2", 1, 4, 21, 32)
    write_floats("k", "<f2", 1, 2, 21, 32)
    write_floats("v", "<f2", 1, 2, 21, 48)
    write_floats("do", "<f2", 1, 4, 21, 48)
    options = ("--opt", "slices=3", "causal=true")
    run("ring_attention", ["q", "k", "v"], "--out", "o=o", "lse=lse", *options)
    assert read_npy("o")[1] == (1, 4, 21, 48) and read_npy("lse")[1] == (1, 4, 21)
    outputs = ("dq=dq", "dk=dk", "dv=dv")
    run("ring_attention_backward", ["q", "k", "v", "o", "lse", "do"], "--out", *outputs, *options)
    # The same as of the whole sequence, but for rounding.
    run("attention", ["q", "k", "v"], "--out", "o=whole", "--opt", "causal=true")
    assert all(abs(a - b) < 4e-3 for a, b in zip(read_npy("o")[2], read_npy("whole")[2]))


main(globals())
