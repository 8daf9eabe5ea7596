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
    """Inputs and outputs are in files of their names, or of the name behind a '='."""
    files = [name + ".npy" if "=" in name else f"{name}={name}.npy" for name in (*inputs, *outputs)]
    done("run", kernel, "--in", *files[: len(inputs)], "--out", *files[len(inputs) :], "--check", *words, *DEVICE)


def test_layer_norm():
    write("x.npy", (3, 5, 40))
    for name in ("w", "b"):
        write(f"{name}.npy", (40,))
    write("dy.npy", (3, 5, 40))
    run("layer_norm", ("x", "w", "b"), ("y", "mean", "rstd"))
    run("layer_norm_backward", ("x", "w", "b", "mean", "rstd", "dy"), ("dx", "dw", "db"))
    run("layer_norm", ("x",), ("y", "mean", "rstd"))
    run("layer_norm_backward", ("x", "mean", "rstd", "dy"), ("dx",))
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


def test_group_norm():
    write("x.npy", (2, 6, 5, 4))
    write("dy.npy", (2, 6, 5, 4))
    for name in ("w", "b"):
        write(f"{name}.npy", (6,))
    run("group_norm", ("x", "w", "b"), ("y", "mean", "rstd"), "--opt", "groups=3")
    run("group_norm_backward", ("x", "w", "mean", "rstd", "dy"), ("dx", "dw", "db"))
    assert read_npy("dx.npy")[1] == (2, 6, 5, 4) and read_npy("mean.npy")[1] == (2, 3)


def test_softmax():
    write("x.npy", (3, 5, 40))
    write("dy.npy", (3, 5, 40))
    for kernel in ("softmax", "log_softmax"):
        run(kernel, ("x",), ("y",))
        run(f"{kernel}_backward", ("y", "dy"), ("dx",))


def test_cross_entropy():
    write("logits.npy", (3, 5, 40))
    write("targets.npy", (3, 5), "<i8", [rng.randrange(40) if i % 4 else -100 for i in range(15)])
    for reduction in ("none", "sum", "mean"):
        words = ("--opt", f"reduction={reduction}", "label_smoothing=0.1")
        run("cross_entropy", ("logits", "targets"), ("loss", "lse"), *words)
        assert read_npy("loss.npy")[1] == ((3, 5) if reduction == "none" else ())
        run("cross_entropy_backward", ("logits", "targets", "lse", "dloss=loss"), ("dlogits",), *words)


if __name__ == "__main__":
    main(globals())
