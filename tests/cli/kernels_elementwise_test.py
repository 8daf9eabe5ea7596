# `sectile run` of the elementwise kernels on .npy files.
import random

from cli import main, read_npy, run, write_floats, write_npy


def test_vector_add():
    for name in ("x", "y"):
        write_floats(name, "<f4", 3, 5, 40)
    run("vector_add", ("x", "y"), outputs=("z",))
    assert read_npy("z")[:2] == ("<f4", (3, 5, 40))


def test_activation():
    for name in ("x", "dy"):
        write_floats(name, "<f2", 3, 5, 40)
    for kind in ("gelu", "silu"):
        run("activation", ("x",), "--opt", f"kind={kind}", outputs=("y",))
        run("activation_backward", ("x", "dy"), "--opt", f"kind={kind}", outputs=("dx",))
    assert read_npy("dx")[:2] == ("<f2", (3, 5, 40))


def test_gated():
    for name in ("gate", "up", "dy"):
        write_floats(name, "<f4", 3, 5, 40)
    for kernel in ("swiglu", "geglu"):
        run(kernel, ("gate", "up"), outputs=("y",))
        run(f"{kernel}_backward", ("gate", "up", "dy"), outputs=("dgate", "dup"))


def test_dropout():
    for name in ("x", "dy"):
        write_floats(name, "<f4", 7, 40)
    words = ("--opt", "p=0.25", "seed=7")
    run("dropout", ("x",), *words, outputs=("y",))
    run("dropout_backward", ("dy",), *words, outputs=("dx",))
    y, dx = read_npy("y")[2], read_npy("dx")[2]
    assert [v == 0 for v in y] == [v == 0 for v in dx] and 0 < y.count(0) < len(y)


def test_embedding():
    write_floats("table", "<f4", 50, 24)
    write_floats("dy", "<f4", 4, 6, 24)
    write_npy("indices", "<i8", (4, 6), [random.randrange(50) for _ in range(24)])
    run("embedding", ("table", "indices"), outputs=("y",))
    run("embedding_backward", ("table", "indices", "dy"), outputs=("dtable",))
    assert read_npy("y")[1] == (4, 6, 24) and read_npy("dtable")[1] == (50, 24)


if __name__ == "__main__":
    main(globals())
