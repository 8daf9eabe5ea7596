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


def test_rms_norm():
    for name in ("x", "residual", "dy", "dh"):
        write(f"{name}.npy", (3, 5, 40), "<f2")
    write("w.npy", (40,), "<f2")
    run("rms_norm", ("x", "w"), ("y", "rstd"))
    run("rms_norm_backward", ("x", "w", "rstd", "dy"), ("dx", "dw"))
    run("rms_norm", ("x", "w", "residual"), ("y", "h", "rstd"), "--opt", "eps=1e-3")
    run("rms_norm_backward", ("x", "w", "rstd", "dy", "h", "dh"), ("dx", "dw"))
    assert read_npy("dx.npy")[:2] == ("<f2", (3, 5, 40))


def test_softmax():
    write("x.npy", (3, 5, 40))
    write("dy.npy", (3, 5, 40))
    for kernel in ("softmax", "log_softmax"):
        run(kernel, ("x",), ("y",))
        run(f"{kernel}_backward", ("y", "dy"), ("dx",))


main(globals())
