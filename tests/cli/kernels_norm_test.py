# `sectile run` of the norms and rows on .npy files.
import random

from cli import main, read_npy, run, write_floats, write_npy


def test_layer_norm():
    write_floats("x", "<f4", 3, 5, 40)
    for name in ("w", "b"):
        write_floats(name, "<f4", 40)
    write_floats("dy", "<f4", 3, 5, 40)
    run("layer_norm", ("x", "w", "b"), outputs=("y", "mean", "rstd"))
    run("layer_norm_backward", ("x", "w", "b", "mean", "rstd", "dy"), outputs=("dx", "dw", "db"))
    run("layer_norm", ("x",), outputs=("y", "mean", "rstd"))
    run("layer_norm_backward", ("x", "mean", "rstd", "dy"), outputs=("dx",))
    assert read_npy("dx")[1] == (3, 5, 40) and read_npy("db")[1] == (40,)


def test_rms_norm_gated():
    for name in ("x", "z", "dy"):
        write_floats(name, "<f2", 4, 24)
    write_floats("w", "<f2", 24)
    run("rms_norm_gated", ("x", "z", "w"), "--opt", "activation=sigmoid", outputs=("y", "rstd"))
    run("rms_norm_gated", ("x", "z", "w"), "--opt", "norm_before_gate=false", outputs=("y", "rstd"))
    run("rms_norm_gated_backward", ("x", "z", "w", "rstd", "dy"), "--opt", "norm_before_gate=false", outputs=("dx", "dz", "dw"))


def test_rms_norm():
    for name in ("x", "residual", "dy", "dh"):
        write_floats(name, "<f2", 3, 5, 40)
    write_floats("w", "<f2", 40)
    run("rms_norm", ("x", "w"), outputs=("y", "rstd"))
    run("rms_norm_backward", ("x", "w", "rstd", "dy"), outputs=("dx", "dw"))
    run("rms_norm", ("x", "w", "residual"), "--opt", "eps=1e-3", outputs=("y", "h", "rstd"))
    run("rms_norm_backward", ("x", "w", "rstd", "dy", "h", "dh"), outputs=("dx", "dw"))
    assert read_npy("dx")[:2] == ("<f2", (3, 5, 40))


def test_group_norm():
    write_floats("x", "<f4", 2, 6, 5, 4)
    write_floats("dy", "<f4", 2, 6, 5, 4)
    for name in ("w", "b"):
        write_floats(name, "<f4", 6)
    run("group_norm", ("x", "w", "b"), "--opt", "groups=3", outputs=("y", "mean", "rstd"))
    run("group_norm_backward", ("x", "w", "mean", "rstd", "dy"), outputs=("dx", "dw", "db"))
    assert read_npy("dx")[1] == (2, 6, 5, 4) and read_npy("mean")[1] == (2, 3)


def test_softmax():
    write_floats("x", "<f4", 3, 5, 40)
    write_floats("dy", "<f4", 3, 5, 40)
    for kernel in ("softmax", "log_softmax"):
        run(kernel, ("x",), outputs=("y",))
        run(f"{kernel}_backward", ("y", "dy"), outputs=("dx",))


def test_cross_entropy():
    write_floats("logits", "<f4", 3, 5, 40)
    write_npy("targets", "<i8", (3, 5), [random.randrange(40) if i % 4 else -100 for i in range(15)])
    for reduction in ("none", "sum", "mean"):
        words = ("--opt", f"reduction={reduction}", "label_smoothing=0.1")
        run("cross_entropy", ("logits", "targets"), *words, outputs=("loss", "lse"))
        assert read_npy("loss")[1] == ((3, 5) if reduction == "none" else ())
        run("cross_entropy_backward", ("logits", "targets", "lse", "dloss=loss"), *words, outputs=("dlogits",))
    write_floats("class_weights", "<f4", 40)
    run("cross_entropy", ("logits", "targets", "class_weights"), "--opt", "argmax=true", outputs=("loss", "lse", "argmax"))
    assert read_npy("argmax")[:2] == ("<i4", (3, 5))


def test_linear_cross_entropy():
    write_floats("x", "<f2", 5, 24)
    write_floats("w", "<f2", 40, 24)
    write_npy("targets", "<i8", (5,), [0, 39, -100, 7, 7])
    run("linear_cross_entropy", ("x", "w", "targets"), "--opt", "softcap=5", outputs=("loss", "lse", "dx", "dw"))
    assert read_npy("loss")[1] == () and read_npy("dx")[1] == (5, 24) and read_npy("dw")[:2] == ("<f4", (40, 24))


if __name__ == "__main__":
    main(globals())
