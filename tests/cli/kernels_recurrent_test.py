# `sectile run` of the recurrent kernels, from files.
import random

from cli import main, read_npy, run, write_floats, write_npy


def test_linear_recurrence():
    for name, width in (("q", 16), ("k", 16), ("v", 24), ("do", 24)):
        write_floats(name, "<f2", 1, 2, 20, width)
    write_npy("g", "<f4", (1, 2, 20), [-random.random() for _ in range(40)])
    write_floats("initial_state", "<f4", 1, 2, 16, 24)
    run("linear_recurrence", ["q", "k", "v"], outputs=["o", "final_state=h"])
    assert read_npy("o")[1] == (1, 2, 20, 24) and read_npy("h")[1] == (1, 2, 16, 24)
    run("linear_recurrence", ["q", "k", "v", "g", "initial_state"], "--opt", "reverse=true")
    run("linear_recurrence_backward", ["q", "k", "v", "g", "do"], outputs=["dq", "dg"])
    assert read_npy("dg")[1] == (1, 2, 20)


def test_delta_rule():
    for name, heads, width in (("q", 1, 16), ("k", 1, 16), ("v", 2, 24)):
        write_floats(name, "<f2", 1, 20, heads, width, spread=0.2)
    for name in ("beta", "g"):
        write_floats(name, "<f4", 1, 20, 2, spread=0.2)
    write_npy("cu_seqlens", "<i4", (3,), [0, 7, 20])
    options = ("--opt", "gate=softplus", "beta_sigmoid=true", "state_layout=vk")
    run("delta_rule", ["q", "k", "v", "beta", "g", "cu_seqlens"], *options, outputs=["o", "final_state=h"])
    assert read_npy("o")[1] == (1, 20, 2, 24) and read_npy("h")[1] == (2, 2, 24, 16)
    write_floats("do", "<f2", 1, 20, 2, 24)
    run("delta_rule_backward", ["q", "k", "v", "beta", "g", "cu_seqlens", "do"], *options, outputs=["dk", "dg"])
    assert read_npy("dk")[1] == (1, 20, 1, 16) and read_npy("dg")[1] == (1, 20, 2)
    run("delta_rule", ["q", "k", "v", "g"], "--opt", "rule=mamba2", "dt_max=0.5", outputs=["o"])
    assert read_npy("o")[1] == (1, 20, 2, 24)
    write_npy("g", "<f4", (1, 20, 2, 16), [-random.random() for _ in range(640)])
    run("kda", ["q", "k", "v", "beta", "g", "cu_seqlens"], outputs=["o"])
    assert read_npy("o")[1] == (1, 20, 2, 24)
    run("kda_backward", ["q", "k", "v", "beta", "g", "cu_seqlens", "do"], outputs=["dk", "dg"])
    assert read_npy("dk")[1] == (1, 20, 1, 16) and read_npy("dg")[1] == (1, 20, 2, 16)
    for name in ("a", "b"):
        write_floats(name, "<f2", 1, 20, 1, 16, spread=0.2)
    run("rwkv7", ["q", "k", "v", "a", "b", "g"], outputs=["o"])
    assert read_npy("o")[1] == (1, 20, 2, 24)
    run("rwkv7_backward", ["q", "k", "v", "a", "b", "g", "do"], outputs=["da", "db"])
    assert read_npy("da")[1] == read_npy("db")[1] == (1, 20, 1, 16)


def test_delta_step():
    for name, heads, width in (("q", 2, 16), ("k", 2, 16), ("v", 4, 24)):
        write_floats(name, "<f2", 3, 1, heads, width)
    write_floats("beta", "<f4", 3, 1, 4)
    write_floats("g", "<f4", 3, 1, 4)
    write_floats("A_log", "<f4", 4)
    write_floats("state", "<f4", 5, 4, 24, 16)
    write_npy("indices", "<i4", (3,), [4, -1, 0])
    given = ["q", "k", "v", "beta", "g", "A_log", "state", "indices"]
    run("delta_step", given, "--opt", "qk_l2norm=true", "beta_sigmoid=true", outputs=["o", "state_out=next"])
    assert read_npy("next")[1] == (5, 4, 24, 16)
    run("delta_step", ["q", "k", "v", "g", "state"], "--opt", "rule=mamba2", "keep_states=true", outputs=["o", "states"])
    assert read_npy("states")[1] == (3, 1, 4, 24, 16)
    for name in ("a", "b"):
        write_floats(name, "<f2", 3, 1, 2, 16, spread=0.2)
    write_floats("g", "<f4", 3, 1, 4, 16)
    run("rwkv7_step", ["q", "k", "v", "a", "b", "g", "state", "indices"], "--opt", "gate=sigmoid", outputs=["o", "state_out=next"])
    assert read_npy("o")[1] == (3, 1, 4, 24) and read_npy("next")[1] == (5, 4, 24, 16)


def test_cells():
    steps, batch, inputs, h = 4, 3, 10, 12
    write_floats("x", "<f4", steps, batch, inputs)
    for kernel, gates in (("rnn", 1), ("gru", 3), ("lstm", 4)):
        write_floats("w_ih", "<f4", 2, gates * h, inputs, spread=0.3)
        write_floats("w_hh", "<f4", 2, gates * h, h, spread=0.3)
        write_floats("b_ih", "<f4", 2, gates * h)
        write_floats("h0", "<f4", 2, batch, h)
        given = ["x", "w_ih", "w_hh", "b_ih", "h0"]
        run(kernel, given, outputs=["y", "reserve"])
        assert read_npy("y")[1] == (steps, batch, 2 * h)
        write_floats("dy", "<f4", steps, batch, 2 * h)
        run(kernel + "_backward", [*given, "y", "reserve", "dy"], outputs=["dx", "dw_hh=dw", "dh0"])
        assert read_npy("dw")[1] == (2, gates * h, h)


if __name__ == "__main__":
    main(globals())
