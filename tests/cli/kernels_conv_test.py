# `sectile run` of the convolutions on files, held against their references.
from cli import main, read_npy, run, write_floats, write_npy

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


def test_causal_conv1d():
    write_floats("x", "<f2", 1, 12, 6)
    write_floats("w", "<f2", 6, 4)
    write_floats("b", "<f2", 6)
    write_floats("initial_state", "<f2", 2, 6, 3)
    write_floats("dy", "<f2", 1, 12, 6)
    write_npy("cu_seqlens", "<i4", (3,), [0, 2, 12])
    given = ["x", "w", "b", "initial_state", "cu_seqlens"]
    run("causal_conv1d", given, outputs=["y", "final_state=last"])
    assert read_npy("last")[1] == (2, 6, 3)
    run("causal_conv1d_backward", [*given, "dy"], "--opt", "activation=none", outputs=["dx", "dw", "db", "dinitial_state=di"])
    assert read_npy("dw")[1] == (6, 4)


def test_causal_conv1d_update():
    write_floats("x", "<f2", 3, 1, 6)
    write_floats("w", "<f2", 6, 3)
    write_floats("state", "<f2", 5, 6, 2)
    write_npy("indices", "<i4", (3,), [4, -1, 0])
    run("causal_conv1d_update", ["x", "w", "state", "indices"], outputs=["y", "state_out=next"])
    assert read_npy("next")[1] == (5, 6, 2)


if __name__ == "__main__":
    main(globals())
