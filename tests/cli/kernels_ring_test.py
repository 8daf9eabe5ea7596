# `sectile run` of ring attention's slices on one device, from files.
from cli import main, read_npy, run, write_floats


def test_slices_and_their_gradients():
    write_floats("q", "<f2", 1, 4, 21, 32)
    write_floats("k", "<f2", 1, 2, 21, 32)
    write_floats("v", "<f2", 1, 2, 21, 48)
    write_floats("do", "<f2", 1, 4, 21, 48)
    options = ("--opt", "slices=3", "causal=true")
    run("ring_attention", ["q", "k", "v"], *options, outputs=["o", "lse"])
    assert read_npy("o")[1] == (1, 4, 21, 48) and read_npy("lse")[1] == (1, 4, 21)
    outputs = ["dq", "dk", "dv"]
    run("ring_attention_backward", ["q", "k", "v", "o", "lse", "do"], *options, outputs=outputs)
    # The same as of the whole sequence, but for rounding.
    run("attention", ["q", "k", "v"], "--opt", "causal=true", outputs=["o=whole"])
    assert all(abs(a - b) < 4e-3 for a, b in zip(read_npy("o")[2], read_npy("whole")[2]))


if __name__ == "__main__":
    main(globals())
