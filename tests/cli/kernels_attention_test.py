# `sectile run` of the attention kernels, from files.
import random
import sys

from cli import done, main, read_npy, write_npy

DEVICE = ("--device", sys.argv[2])
rng = random.Random(5)


def write_floats(name, descr, *shape):
    count = 1
    for extent in shape:
        count *= extent
    write_npy(name, descr, shape, [rng.gauss(0, 1) for _ in range(count)])


def run(kernel, inputs, *words):
    done("run", kernel, "--in", *(f"{name}={name}" for name in inputs), *words, "--check", *DEVICE)


def test_attention_and_its_gradients():
    write_floats("q", "<f2", 1, 20, 4, 32)
    write_floats("k", "<f2", 1, 30, 2, 32)
    write_floats("v", "<f2", 1, 30, 2, 48)
    write_floats("do", "<f2", 1, 20, 4, 48)
    write_floats("bias", "<f2", 1, 4, 20, 30)
    write_npy("mask", "|b1", (1, 1, 20, 30), [rng.random() < 0.8 for _ in range(600)])
    write_floats("sinks", "<f4", 4, 2)
    options = ("--opt", "layout=bshd", "causal=true", "window_left=12", "softcap=5", "dropout=0.1", "seed=3")
    extras = ["bias", "mask", "sinks"]
    run("attention", ["q", "k", "v", *extras], "--out", "o=o", "lse=lse", *options)
    assert read_npy("o")[1] == (1, 20, 4, 48) and read_npy("lse")[1] == (1, 4, 20)
    outputs = ("dq=dq", "dk=dk", "dv=dv", "dbias=dbias", "dsinks=dsinks")
    run("attention_backward", ["q", "k", "v", "o", "lse", "do", *extras], "--out", *outputs, *options)
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
    run("attention_varlen", inputs, "--out", "o=o", "lse=lse", "--opt", "causal=true")
    assert read_npy("lse")[1] == (2, 20)
    run("attention_varlen_backward", [*inputs, "o", "lse", "do"], "--out", "dk=dk", "--opt", "causal=true")
    assert read_npy("dk")[1] == (30, 1, 16)


if __name__ == "__main__":
    main(globals())
