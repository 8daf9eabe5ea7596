# `sectile run --check` of the kernels for inference, from .npy files.
import math
import random
import sys

from cli import done, main, read_npy, write_npy

DEVICE = ("--device", sys.argv[2])
rng = random.Random(11)


def floats(count, spread=1.0):
    return [rng.gauss(0, spread) for _ in range(count)]


def test_attention_merge():
    parts, batch, heads, rows, width = 3, 1, 2, 5, 24
    lse = floats(parts * batch * heads * rows, 2)
    for part in range(parts):
        lse[part * batch * heads * rows] = -math.inf
    write_npy("po", "<f2", (parts, batch, heads, rows, width), floats(len(lse) * width))
    write_npy("pl", "<f4", (parts, batch, heads, rows), lse)
    done("run", "attention_merge", "--in", "partial_o=po", "partial_lse=pl", "--out", "o=o", "lse=l", "--check",
         *DEVICE)  # fmt: skip
    assert read_npy("o")[1] == (batch, heads, rows, width)
    assert read_npy("o")[2][:width] == [0] * width and read_npy("l")[2][0] == -math.inf


def paged(tokens, heads, width, cache_width, page, pages, lengths, cache):
    write_npy("q", "<f2", (tokens, heads, width), floats(tokens * heads * width))
    count = 20 * 2 * page * cache_width
    for name in "kv":
        values = floats(count) if cache == "<f2" else [rng.randrange(256) for _ in range(count)]
        write_npy(name, cache, (20, 2, page, cache_width), values)
    write_npy("lens", "<i4", (len(lengths),), lengths)
    tables = [rng.randrange(20) if p * page < n else -7 for n in lengths for p in range(pages)]
    write_npy("tables", "<i4", (len(lengths), pages), tables)
    return ["--in", "k_cache=k", "v_cache=v", "context_lens=lens", "block_tables=tables"]


def test_paged_decode():
    inputs = paged(3, 4, 32, 32, 5, 9, [0, 45, 17], "<f2")
    write_npy("sinks", "<f4", (4, 2), floats(8))
    done("run", "paged_decode", *inputs, "q=q", "--out", "o=o", "lse=l", "--check", *DEVICE)
    assert read_npy("o")[1] == (3, 4, 32) and read_npy("l")[1] == (3, 4)
    assert read_npy("o")[2][:128] == [0] * 128 and read_npy("l")[2][:4] == [-math.inf] * 4
    done("run", "paged_decode", *inputs, "q=q", "sinks=sinks", "--opt", "softcap=2", "window_left=12", "scale=0.3",
         "--config", "splits=3", "--check", *DEVICE)  # fmt: skip


def test_paged_decode_of_quantised_caches():
    inputs = paged(2, 4, 32, 16, 16, 3, [48, 20], "|u1")
    write_npy("ks", "<f4", (20, 2), [0.02] * 40)
    write_npy("vs", "<f4", (1, 2), [0.03, 0.01])
    scales = ["k_scale=ks", "v_scale=vs"]
    done("run", "paged_decode", *inputs, "q=q", *scales, "--check", *DEVICE)
    inputs = paged(2, 4, 32, 32, 16, 3, [48, 20], "|u1")
    for name in "kv":  # without the two codes of NaN
        write_npy(name, "|u1", (20, 2, 16, 32), [rng.choice((0, 128)) + rng.randrange(127) for _ in range(20480)])
    done("run", "paged_decode", *inputs, "q=q", *scales, "--dtype", "k_cache=f8e4m3", "v_cache=f8e4m3", "--check",
         *DEVICE)  # fmt: skip


def test_paged_prefill():
    inputs = paged(30, 4, 32, 32, 5, 9, [12, 0, 45], "<f2")
    write_npy("ends", "<i4", (4,), [0, 12, 12, 30])
    write_npy("sinks", "<f4", (1, 2), floats(2))
    inputs += ["q=q", "cu_seqlens_q=ends"]
    done("run", "paged_prefill", *inputs, "--out", "o=o", "lse=l", "--check", *DEVICE)
    assert read_npy("o")[1] == (30, 4, 32) and read_npy("l")[1] == (30, 4)
    done("run", "paged_prefill", *inputs, "sinks=sinks", "--opt", "window_left=7", "softcap=1.5", "--check", *DEVICE)


def test_block_sparse_attention():
    heads, queries, keys, width = 2, 70, 50, 32
    write_npy("q", "<f2", (1, heads, queries, width), floats(heads * queries * width))
    write_npy("do", "<f2", (1, heads, queries, width), floats(heads * queries * width))
    for name in "kv":
        write_npy(name, "<f2", (1, 1, keys, width), floats(keys * width))
    mask = [rng.random() < 0.5 for _ in range(5 * 2)]
    mask[:2] = [False, False]
    write_npy("mask", "|b1", (1, 1, 5, 2), mask)
    words = ["--in", "q=q", "k=k", "v=v", "mask=mask"]
    options = ["--opt", "block_q=16", "block_k=32", "causal=true", "--check", *DEVICE]
    done("run", "block_sparse_attention", *words, "--out", "o=o", "lse=l", *options)
    assert read_npy("o")[2][: 16 * width] == [0] * 16 * width and read_npy("l")[2][:16] == [-math.inf] * 16
    done("run", "block_sparse_attention_backward", *words, "o=o", "lse=l", "do=do", "--out", "dq=dq", "dk=dk", *options)
    assert read_npy("dq")[1] == (1, heads, queries, width) and read_npy("dk")[1] == (1, 1, keys, width)


if __name__ == "__main__":
    main(globals())
