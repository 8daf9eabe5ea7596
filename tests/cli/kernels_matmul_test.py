# `sectile run` of the matrix products on files, held against their references.
import math
import random

import cli
from cli import main, read_npy, write_floats, write_npy


def file(name, shape, descr="<f4"):
    if descr in ("|i1", "|u1"):
        write_npy(name, descr, shape, [random.randint(0 if descr == "|u1" else -9, 9) for _ in range(math.prod(shape))])
    else:
        write_floats(name, descr, *shape)
    return name


def mx_scales(name, shape):
    write_npy(name, "|u1", shape, [random.randint(120, 130) for _ in range(math.prod(shape))])
    return name


def run(kernel, inputs, *options, out="c"):
    cli.run(kernel, inputs, *(("--opt", *options) if options else ()), outputs=[out])
    return read_npy(out)


def test_matmul():
    assert run("matmul", [file("a", (33, 17)), file("b", (17, 9)), file("bias", (9,)), file("residual", (33, 9)),
                          file("row_scale", (33,)), file("column_scale", (9,))],
               "activation=gelu", "alpha=0.5", "beta=2")[:2] == ("<f4", (33, 9))
    assert run("matmul", [file("a", (3, 17), "|i1"), file("b", (9, 17), "|i1")])[:2] == ("<i4", (3, 9))
    assert run("matmul", [file("a", (3, 17), "|i1"), file("b", (17, 9), "|i1")], "trans_b=false")[1] == (3, 9)
    run("matmul", [file("a", (40, 500), "<f2"), file("b", (500, 9), "<f2")], "schedule=stream_k", "out=f32")


def test_batched_matmul():
    run("batched_matmul", [file("a", (3, 33, 17)), file("b", (1, 17, 9)), file("bias", (1, 9))], "activation=silu")


def test_grouped_matmul():
    write_npy("group_sizes", "<i4", (4,), [10, 0, 70, 3])
    files = [file("lhs", (83, 17)), "group_sizes"]
    assert run("grouped_matmul", files + [file("rhs", (4, 9, 17))], "trans_rhs=true")[1] == (83, 9)
    assert run("grouped_matmul_drhs", files + [file("dc", (83, 9))], out="drhs")[1] == (4, 17, 9)


def test_quantized_matmul():
    files = [file("a", (5, 64), "<f2"), file("scales", (9, 2), "<f2"), file("bias", (9,), "<f2")]
    run("quantized_matmul", files + [file("w", (9, 32), "|u1"), file("zeros", (9, 2), "<f2")], "group=32")
    run("quantized_matmul", files + [file("w", (9, 64), "|i1")], "group=32")


def test_scaled_matmul():
    files = [file("a", (5, 70), "|i1"), file("a_scales", (5, 3)), file("bias", (9,))]
    words = ["block_k=32", "block_n=8", "out=f32"]
    run("scaled_matmul", files + [file("b", (9, 70), "|i1"), file("b_scales", (2, 3))], *words)
    run("scaled_matmul", files + [file("b", (70, 9), "|i1"), file("b_scales", (3, 2))], "trans_b=false", *words)


def test_mx_matmul():
    run("mx_matmul", [file("a", (5, 35), "|u1"), file("b", (9, 35), "|u1"), mx_scales("a_scales", (5, 3)),
                      mx_scales("b_scales", (9, 3)), file("bias", (9,))], "out=f32")


if __name__ == "__main__":
    main(globals())
