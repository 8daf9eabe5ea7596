# `sectile run` of the kernels for positions, from files.
import random

from cli import main, read_npy, run, write_floats, write_npy


def test_rope():
    write_floats("x", "<f2", 2, 3, 20, 32)
    write_npy("positions", "<i4", (2, 20), [random.randint(0, 1000) for _ in range(40)])
    run("rope", ["x", "positions"], "--opt", "style=interleaved", "rotary=16", outputs=["y"])
    assert read_npy("y")[1] == (2, 3, 20, 32)
    write_floats("dy", "<f4", 2, 20, 3, 32)
    run("rope_backward", ["dy"], "--opt", "layout=bshd", "offset=5")


def test_add_positions():
    write_floats("x", "<f4", 2, 9, 40)
    write_floats("dy", "<f4", 2, 9, 40)
    write_floats("table", "<f4", 50, 40)
    write_floats("w", "<f4", 40)
    write_floats("b", "<f4", 40)
    write_npy("positions", "<i4", (2, 9), [random.randrange(50) for _ in range(18)])
    run("add_positions", ["x", "table", "positions", "w", "b"], outputs=["y", "mean", "rstd"])
    run("add_positions_backward", ["dy", "table", "positions", "x", "w", "mean", "rstd"], outputs=["dtable=d"])
    assert read_npy("d")[1] == (50, 40)
    run("add_positions_backward", ["dy", "table"], "--opt", "offset=3")


def test_sinusoidal():
    write_floats("x", "<f2", 2, 9, 40)
    write_npy("zeros", "<f2", (2, 9, 40))
    run("sinusoidal", ["x"], "--opt", "offset=100", "scale=6.3", outputs=["y"])
    run("sinusoidal", ["x=zeros"], outputs=["y"])
    assert read_npy("y")[2][:40] == [0.0, 1.0] * 20
    write_floats("dy", "<f2", 2, 9, 40)
    run("sinusoidal_backward", ["dy"], "--opt", "scale=6.3")


# Forward, and backward from what that gives.
def attention(kernel, queries, keys, *words, outputs=("o", "lse"), back=("o", "lse", "do")):
    for name in (*queries, "do"):
        write_floats(name, "<f2", 1, 4, 20, 32)
    for name in (*keys, "v"):
        write_floats(name, "<f2", 1, 2, 30, 32)
    run(kernel, [*queries, *keys, "v"], *words, outputs=outputs)
    run(kernel + "_backward", [*queries, *keys, "v", *back], *words)
    assert read_npy("o")[1] == (1, 4, 20, 32)


def test_rope_attention():
    attention("rope_attention", "q", "k", "--opt", "style=interleaved", "causal=true")


def test_rerope_attention():
    attention("rerope_attention", ("q1", "q2"), ("k1", "k2"), "--opt", "window=7", "causal=true")


def test_exposb_attention():
    attention("exposb_attention", "q", "k", "--opt", "near_decay=0.1", "window_left=12")


def test_stick_breaking_attention():
    write_floats("drem", "<f4", 1, 4, 20)
    attention("stick_breaking_attention", "q", "k", "--opt", "scale=0.2", outputs=("o", "rem"), back=("do", "drem"))


if __name__ == "__main__":
    main(globals())
