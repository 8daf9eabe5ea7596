# `sectile run` of the convolutions on files, held against their references.
from cli import main, read_npy, run, write_floats

OPTIONS = ("--opt", "stride_w=2", "pad_h=1", "groups=2")


def test_conv2d():
    write_floats("x", "<f4", 2, 4, 5, 9)
    write_floats("w", "<f4", 6, 2, 2, 3)
    write_floats("b", "<f4", 6)
    write_floats("dy", "<f4", 2, 6, 6, 4)
    run("conv2d", "xwb", *OPTIONS, outputs="y")
    assert read_npy("y")[1] == (2, 6, 6, 4)
    run("conv2d_backward", ["x", "w", "b", "dy"], *OPTIONS, outputs=["dx", "dw", "db"])
    for name in "xwb":
        assert read_npy("d" + name)[1] == read_npy(name)[1], name


def test_few_channels_in_a_group():
    # By its options the kernel is one with another launch for dx.
    write_floats("x", "<f2", 1, 3, 8, 9)
    write_floats("w", "<f2", 6, 1, 3, 3)
    write_floats("dy", "<f2", 1, 6, 6, 4)
    run("conv2d_backward", ["x", "w", "dy"], "--opt", "stride_w=2", "groups=3", outputs=["dx", "dw"])
    assert read_npy("dx")[1] == (1, 3, 8, 9)


if __name__ == "__main__":
    main(globals())
