# `sectile run` of the kernels that quantize, held against their references.
from cli import main, read_npy, run, write_floats

BLOCK = ("--opt", "granularity=block", "block=32", "out=i8")


def test_quantize():
    write_floats("x", "<f4", 70, 50)
    run("quantize", ("x",), *BLOCK, outputs=("y", "scales"))
    assert read_npy("y")[:2] == ("|i1", (70, 50)) and read_npy("scales")[:2] == ("<f4", (3, 2))
    run("quantize", ("x",), "--opt", "granularity=tensor", "scale_format=power_of_two", outputs=("y", "scales"))
    assert read_npy("scales")[1] == (1, 1)
    run("quantize", ("x",), "--opt", "block=32", "scale_format=e8m0", outputs=("y", "scales"))
    assert read_npy("scales")[:2] == ("|u1", (70, 2))


def test_silu_mul_quantize():
    for name in ("gate", "up"):
        write_floats(name, "<f2", 7, 300)
    run("silu_mul_quantize", ("gate", "up"), outputs=("y", "scales"))
    assert read_npy("y")[1] == (7, 300) and read_npy("scales")[:2] == ("<f4", (7, 3))


def test_rms_norm_quant():
    for name in ("x", "residual"):
        write_floats(name, "<f2", 7, 300)
    write_floats("w", "<f2", 300)
    run("rms_norm_quant", ("x", "w", "residual"), "--opt", "granularity=group", "weight_offset=1", outputs=("y", "scales", "h", "rstd"))
    assert read_npy("y")[1] == (7, 300) and read_npy("scales")[:2] == ("<f4", (7, 3))


if __name__ == "__main__":
    main(globals())
