# `sectile run` of sampling, from files.
import random

from cli import main, read_npy, run, write_npy


def test_sample():
    x = [random.gauss(0, 2) for _ in range(3 * 50)]
    write_npy("logits", "<f4", (3, 50), x)
    best = [max(range(50), key=lambda v: x[row * 50 + v]) for row in range(3)]
    run("sample", ["logits"], "--opt", "temperature=0", "logprobs=true", outputs=["token=t", "rank=r", "logprob=l"])
    assert read_npy("t") == ("<i4", (3,), best)
    assert read_npy("r")[2] == [1, 1, 1] and max(read_npy("l")[2]) < 0
    run("sample", ["logits"], "--opt", "top_k=1", "top_p=0.3", "seed=5", outputs=["token=t"])
    assert read_npy("t")[2] == best
    write_npy("counts", "<i4", (3, 50), [1] * 150)
    run("sample", ["logits", "counts"], "--opt", "temperature=0", "presence=3", outputs=["token=t"])
    assert read_npy("t")[2] == best


def test_renormalize():
    write_npy("probs", "<f4", (1, 4), [0.125, 0.5, 0.25, 0.125])
    run("renormalize", ["probs"], "--opt", "top_k=3", outputs=["y"])
    y = read_npy("y")[2]
    assert y[3] == 0 and abs(sum(y) - 1) < 1e-6 and abs(y[1] - 0.5 / 0.875) < 1e-6


def test_speculative_verify():
    write_npy("draft_tokens", "<i4", (1, 2), [1, 0])
    write_npy("target_probs", "<f4", (1, 3, 2), [0, 1, 0, 1, 1, 0])
    write_npy("u", "<f4", (1, 2), [0.5, 0.5])
    run("speculative_verify", ["draft_tokens", "target_probs", "u"], outputs=["tokens", "emitted", "accepted"])
    assert read_npy("tokens")[2] == [1, 1, -1]
    assert read_npy("emitted")[2] == read_npy("accepted")[2] == [1]


if __name__ == "__main__":
    main(globals())
