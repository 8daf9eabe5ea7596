# `sectile run` of pooling, from files.
import random

from cli import main, read_npy, run, write_floats, write_npy


def test_mean_pool():
    write_floats("x", "<f2", 2, 50, 30)
    write_npy("mask", "|b1", (2, 50), [random.random() < 0.7 for _ in range(100)])
    write_floats("dy", "<f2", 2, 30)
    run("mean_pool", ["x"], outputs=["y"])
    assert read_npy("y")[1] == (2, 30)
    run("mean_pool", ["x", "mask"])
    run("mean_pool_backward", ["x", "mask", "dy"], outputs=["dx"])
    assert read_npy("dx")[1] == (2, 50, 30)


def test_chunk_mean_pool():
    write_floats("x", "<f4", 1, 50, 2, 30)
    write_npy("cu_seqlens", "<i4", (4,), [0, 20, 20, 50])
    run("chunk_mean_pool", ["x"], "--opt", "chunk=16", outputs=["y"])
    assert read_npy("y")[1] == (1, 4, 2, 30)
    run("chunk_mean_pool", ["x", "cu_seqlens"], "--opt", "chunk=16", "chunks=4", outputs=["y=dy"])
    run("chunk_mean_pool_backward", ["x", "cu_seqlens", "dy"], "--opt", "chunk=16", outputs=["dx"])
    assert read_npy("dx")[1] == (1, 50, 2, 30)


if __name__ == "__main__":
    main(globals())
