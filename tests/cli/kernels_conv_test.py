# `sectile run` of the convolutions on files, held against their references.
import math
import random
import sys

from cli import done, main, read_npy, write_npy

DEVICE = ("--device", sys.argv[2])
rng = random.Random(12)
OPTIONS = ("--opt", "stride_w=2", "--opt", "pad_h=1", "--opt", "groups=2")


def file(name, shape):
    write_npy(f"{name}.npy", "<f4", shape, [rng.gauss(0, 1) for _ in range(math.prod(shape))])
    return f"{name}={name}.npy"


def test_conv2d():
    files = [file("x", (2, 4, 5, 9)), file("w", (6, 2, 2, 3)), file("b", (6,))]
    done("run", "conv2d", "--in", *files, "--out", "y=y.npy", "--check", *OPTIONS, *DEVICE)
    assert read_npy("y.npy")[1] == (2, 6, 6, 4)
    done("run", "conv2d_backward", "--in", *files, file("dy", (2, 6, 6, 4)), "--out", "dx=dx.npy", "dw=dw.npy", "db=db.npy",
         "--check", *OPTIONS, *DEVICE)
    assert [read_npy(f"d{name}.npy")[1] for name in "xwb"] == [(2, 4, 5, 9), (6, 2, 2, 3), (6,)]


if __name__ == "__main__":
    main(globals())
