# `sectile run` of pooling, from files.
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


def test_mean_pool():
    write_floats("x", "<f2", 2, 50, 30)
    write_npy("mask", "|b1", (2, 50), [rng.random() < 0.7 for _ in range(100)])
    write_floats("dy", "<f2", 2, 30)
    run("mean_pool", ["x"], "--out", "y=y")
    assert read_npy("y")[1] == (2, 30)
    run("mean_pool", ["x", "mask"])
    run("mean_pool_backward", ["x", "mask", "dy"], "--out", "dx=dx")
    assert read_npy("dx")[1] == (2, 50, 30)


def test_chunk_mean_pool():
    write_floats("x", "<f4", 1, 50, 2, 30)
    write_npy("cu_seqlens", "<i4", (4,), [0, 20, 20, 50])
    run("chunk_mean_pool", ["x"], "--out", "y=y", "--opt", "chunk=16")
    assert read_npy("y")[1] == (1, 4, 2, 30)
    run("chunk_mean_pool", ["x", "cu_seqlens"], "--out", "y=dy", "--opt", "chunk=16", "chunks=4")
    run("chunk_mean_pool_backward", ["x", "cu_seqlens", "dy"], "--out", "dx=dx", "--opt", "chunk=16")
    assert read_npy("dx")[1] == (1, 50, 2, 30)


if __name__ == "__main__":
    main(globals())
