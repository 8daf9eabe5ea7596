# `sectile run` of the norms and rows on .npy files.
import random
import sys

from cli import done, main, read_npy, write_npy

DEVICE = ("--device", sys.argv[2])
rng = random.Random(3)


def write(name, shape, descr="<f4", values=None):
    count = 1
    for extent in shape:
        count *= extent
    write_npy(name, descr, shape, values or [rng.gauss(0, 1) for _ in range(count)])


def run(kernel, inputs, outputs, *words):
    done("run", kernel, "--in", *(f"{name}={name}.npy" for name in inputs), "--out",
         *(f"{name}={name}.npy" for name in outputs), "--check", *words, *DEVICE)  # fmt: skip


def test_layer_norm():
    write("x.npy", (3, 5, 40))
    for name in ("w", "b"):
        write(f"{name}.npy", (40,))
    write("dy.npy", (3, 5, 40))
    run("layer_norm", ("x", "w", "b"), ("y", "mean", "rstd"))
    run("layer_norm_backward", ("x", "w", "mean", "rstd", "dy"), ("dx", "dw", "db"))
    assert read_npy("dx.npy")[1] == (3, 5, 40) and read_npy("db.npy")[1] == (40,)


main(globals())
