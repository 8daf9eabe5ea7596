# `sectile run` of the elementwise kernels on .npy files.
import random
import sys

from cli import done, main, read_npy, write_npy

DEVICE = ("--device", sys.argv[2])
rng = random.Random(5)


def write(names, shape, descr="<f4"):
    count = 1
    for extent in shape:
        count *= extent
    for name in names:
        write_npy(f"{name}.npy", descr, shape, [rng.gauss(0, 1) for _ in range(count)])


def run(kernel, inputs, outputs, *words):
    done("run", kernel, "--in", *(f"{name}={name}.npy" for name in inputs), "--out",
         *(f"{name}={name}.npy" for name in outputs), "--check", *words, *DEVICE)  # fmt: skip


def test_vector_add():
    write(("x", "y"), (3, 5, 40))
    run("vector_add", ("x", "y"), ("z",))
    assert read_npy("z.npy")[:2] == ("<f4", (3, 5, 40))


def test_activation():
    write(("x", "dy"), (3, 5, 40), "<f2")
    for kind in ("gelu", "silu"):
        run("activation", ("x",), ("y",), "--opt", f"kind={kind}")
        run("activation_backward", ("x", "dy"), ("dx",), "--opt", f"kind={kind}")
    assert read_npy("dx.npy")[:2] == ("<f2", (3, 5, 40))


def test_gated():
    write(("gate", "up", "dy"), (3, 5, 40))
    for kernel in ("swiglu", "geglu"):
        run(kernel, ("gate", "up"), ("y",))
        run(f"{kernel}_backward", ("gate", "up", "dy"), ("dgate", "dup"))


def test_dropout():
    write(("x", "dy"), (7, 40))
    words = ("--opt", "p=0.25", "seed=7")
    run("dropout", ("x",), ("y",), *words)
    run("dropout_backward", ("dy",), ("dx",), *words)
    y, dx = read_npy("y.npy")[2], read_npy("dx.npy")[2]
    assert [v == 0 for v in y] == [v == 0 for v in dx] and 0 < y.count(0) < len(y)


def test_embedding():
    write(("table",), (50, 24))
    write(("dy",), (4, 6, 24))
    write_npy("indices.npy", "<i8", (4, 6), [rng.randrange(50) for _ in range(24)])
    run("embedding", ("table", "indices"), ("y",))
    run("embedding_backward", ("table", "indices", "dy"), ("dtable",))
    assert read_npy("y.npy")[1] == (4, 6, 24) and read_npy("dtable.npy")[1] == (50, 24)


if __name__ == "__main__":
    main(globals())
