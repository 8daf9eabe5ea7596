# `sectile run` of the attention kernels, from files.
import random

from cli import main, read_npy, run, write_floats, write_npy


def test_attention_and_its_gradients():
    write_floats("q", "<f2", 1, 20, 4, 32)
    write_floats("k", "<f2", 1, 30, 2, 32)
    write_floats("v", "<f2", 1, 30, 2, 48)
    write_floats("do", "<f2", 1, 20, 4, 48)
    write_floats("bias", "<f2", 1, 4, 20, 30)
    write_npy("mask", "|b1", (1, 1, 20, 30), [random.random() < 0.8 for _ in range(600)])
    write_floats("sinks", "<f4", 4, 2)
    options = ("--opt", "layout=bshd", "causal=true", "window_left=12", "softcap=5", "dropout=0.1", "seed=3")
    extras = ["bias", "mask", "sinks"]
    run("attention", ["q", "k", "v", *extras], *options, outputs=["o", "lse"])
    assert read_npy("o")[1] == (1, 20, 4, 48) and read_npy("lse")[1] == (1, 4, 20)
    outputs = ["dq", "dk", "dv", "dbias", "dsinks"]
    run("attention_backward", ["q", "k", "v", "o", "lse", "do", *extras], *options, outputs=outputs)
    for name in ("q", "k", "v", "bias", "sinks"):
        assert read_npy("d" + name)[1] == read_npy(name)[1], name


def test_packed_sequences():
    write_floats("q", "<f4", 20, 2, 16)
    write_floats("k", "<f4", 30, 1, 16)
    write_floats("v", "<f4", 30, 1, 16)
    write_floats("do", "<f4", 20, 2, 16)
    write_npy("cu_seqlens_q", "<i4", (4,), [0, 7, 7, 20])
    write_npy("cu_seqlens_k", "<i4", (4,), [0, 12, 14, 30])
    inputs = ["q", "k", "v", "cu_seqlens_q", "cu_seqlens_k"]
    run("attention_varlen", inputs, "--opt", "causal=true", outputs=["o", "lse"])
    assert read_npy("lse")[1] == (2, 20)
    run("attention_varlen_backward", [*inputs, "o", "lse", "do"], "--opt", "causal=true", outputs=["dk"])
    assert read_npy("dk")[1] == (30, 1, 16)


if __name__ == "__main__":
    main(globals())
