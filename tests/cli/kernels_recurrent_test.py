# `sectile run` of the recurrent kernels, from files.
import math
import random
import sys

from cli import done, main, read_npy, write_npy

DEVICE = ("--device", sys.argv[2])
rng = random.Random(3)


def write_floats(name, descr, *shape, spread=1.0):
    write_npy(name, descr, shape, [rng.gauss(0, spread) for _ in range(math.prod(shape))])


def run(kernel, inputs, *words):
    done("run", kernel, "--in", *(f"{name}={name}" for name in inputs), *words, "--check", *DEVICE)


def test_linear_recurrence():
    for name, width in (("q", 16), ("k", 16), ("v", 24), ("do", 24)):
        write_floats(name, "<f2", 1, 2, 20, width)
    write_npy("g", "<f4", (1, 2, 20), [-rng.random() for _ in range(40)])
    write_floats("initial_state", "<f4", 1, 2, 16, 24)
    run("linear_recurrence", ["q", "k", "v"], "--out", "o=o", "final_state=h")
    assert read_npy("o")[1] == (1, 2, 20, 24) and read_npy("h")[1] == (1, 2, 16, 24)
    run("linear_recurrence", ["q", "k", "v", "g", "initial_state"], "--opt", "reverse=true")
    run("linear_recurrence_backward", ["q", "k", "v", "g", "do"], "--out", "dq=dq", "dg=dg")
    assert read_npy("dg")[1] == (1, 2, 20)


def test_cells():
    steps, batch, inputs, h = 4, 3, 10, 12
    write_floats("x", "<f4", steps, batch, inputs)
    for kernel, gates in (("rnn", 1), ("gru", 3), ("lstm", 4)):
        write_floats("w_ih", "<f4", 2, gates * h, inputs, spread=0.3)
        write_floats("w_hh", "<f4", 2, gates * h, h, spread=0.3)
        write_floats("b_ih", "<f4", 2, gates * h)
        write_floats("h0", "<f4", 2, batch, h)
        given = ["x", "w_ih", "w_hh", "b_ih", "h0"]
        run(kernel, given, "--out", "y=y", "reserve=reserve")
        assert read_npy("y")[1] == (steps, batch, 2 * h)
        write_floats("dy", "<f4", steps, batch, 2 * h)
        run(kernel + "_backward", [*given, "y", "reserve", "dy"], "--out", "dx=dx", "dw_hh=dw", "dh0=dh0")
        assert read_npy("dw")[1] == (2, gates * h, h)


if __name__ == "__main__":
    main(globals())
