# `sectile run` of the matrix products on files, held against their references.
import random
import sys

from cli import done, main, read_npy, write_npy

DEVICE = ("--device", sys.argv[2])
rng = random.Random(11)


def file(name, shape, descr="<f4"):
    count = 1
    for extent in shape:
        count *= extent
    integer = descr in ("|i1", "|u1", "<i4")
    values = [rng.randint(0 if descr == "|u1" else -9, 9) if integer else rng.gauss(0, 1) for _ in range(count)]
    write_npy(f"{name}.npy", descr, shape, values)
    return f"{name}={name}.npy"


def run(kernel, files, *options):
    out = done("run", kernel, "--in", *files, "--out", "c=c.npy", "--check", *DEVICE,
               *[word for option in options for word in ("--opt", option)])
    assert "c" in out.out
    return read_npy("c.npy")


def test_matmul():
    assert run("matmul", [file("a", (33, 17)), file("b", (17, 9)), file("bias", (9,)), file("residual", (33, 9)),
                          file("row_scale", (33,)), file("column_scale", (9,))],
               "activation=gelu", "alpha=0.5", "beta=2")[:2] == ("<f4", (33, 9))
    assert run("matmul", [file("a", (3, 17), "|i1"), file("b", (17, 9), "|i1")])[:2] == ("<i4", (3, 9))
    run("matmul", [file("a", (40, 500), "<f2"), file("b", (500, 9), "<f2")], "schedule=stream_k", "out=f32")


def test_batched_matmul():
    run("batched_matmul", [file("a", (3, 33, 17)), file("b", (1, 17, 9)), file("bias", (1, 9))], "activation=silu")


main(globals())
