# `sectile run --check` of the kernels for inference, from .npy files.
import math
import random

from cli import main, read_npy, run, write_floats, write_npy


def test_attention_merge():
    parts, batch, heads, rows, width = 3, 1, 2, 5, 24
    lse = [random.gauss(0, 2) for _ in range(parts * batch * heads * rows)]
    for part in range(parts):
        lse[part * batch * heads * rows] = -math.inf
    write_floats("partial_o", "<f2", parts, batch, heads, rows, width)
    write_npy("partial_lse", "<f4", (parts, batch, heads, rows), lse)
    run("attention_merge", ["partial_o", "partial_lse"], outputs=["o", "lse"])
    assert read_npy("o")[1] == (batch, heads, rows, width)
    assert read_npy("o")[2][:width] == [0] * width and read_npy("lse")[2][0] == -math.inf


def paged(tokens, heads, width, cache_width, page, pages, lengths, cache):
    write_floats("q", "<f2", tokens, heads, width)
    for name in ("k_cache", "v_cache"):
        if cache == "<f2":
            write_floats(name, cache, 20, 2, page, cache_width)
        else:
            write_npy(name, cache, (20, 2, page, cache_width), [random.randrange(256) for _ in range(40 * page * cache_width)])
    write_npy("context_lens", "<i4", (len(lengths),), lengths)
    tables = [random.randrange(20) if p * page < n else -7 for n in lengths for p in range(pages)]
    write_npy("block_tables", "<i4", (len(lengths), pages), tables)
    return ["q", "k_cache", "v_cache", "context_lens", "block_tables"]


def test_paged_decode():
    inputs = paged(3, 4, 32, 32, 5, 9, [0, 45, 17], "<f2")
    write_floats("sinks", "<f4", 4, 2)
    run("paged_decode", inputs, outputs=["o", "lse"])
    assert read_npy("o")[1] == (3, 4, 32) and read_npy("lse")[1] == (3, 4)
    assert read_npy("o")[2][:128] == [0] * 128 and read_npy("lse")[2][:4] == [-math.inf] * 4
    options = ("--opt", "softcap=2", "window_left=12", "scale=0.3", "--config", "splits=3")
    run("paged_decode", [*inputs, "sinks"], *options)


def test_paged_decode_by_a_plan():
    inputs = paged(3, 4, 32, 32, 16, 40, [600, 0, 30], "<f2")
    run("paged_plan", ["context_lens"], "--opt", "parts=5", outputs=["plan"])
    plan = [0, 0, 256, 3, 0, 256, 512, 0, 0, 512, 600, 0, 1, 0, 0, 1, 2, 0, 30, 1]
    assert read_npy("plan")[1:] == ((5, 4), plan)
    run("paged_decode", [*inputs, "plan"], outputs=["o", "lse"])


def test_appends():
    tokens, heads, width, page = 3, 2, 16, 5
    write_npy("context_lens", "<i4", (2,), [7, 1])
    write_npy("block_tables", "<i4", (2, 2), [3, 1, 0, -1])
    write_npy("cu_seqlens_q", "<i4", (3,), [0, 2, 3])
    run("paged_slots", ["context_lens", "block_tables", "cu_seqlens_q"], "--opt", "page=5", "tokens=3", outputs=["slots", "positions"])
    assert read_npy("slots")[2] == [5, 6, 0] and read_npy("positions")[2] == [5, 6, 0]
    write_floats("q", "<f2", tokens, 4, width)
    for name in ("k", "v"):
        write_floats(name, "<f2", tokens, heads, width)
        write_floats(name + "_cache", "<f2", 4, heads, page, width)
    run("kv_append", ["k", "v", "k_cache", "v_cache", "slots"], outputs=["k_out", "v_out"])
    k, before, after = read_npy("k")[2], read_npy("k_cache")[2], read_npy("k_out")[2]
    block = heads * page * width  # slot 5 is the first row of block 1
    assert after[block : block + width] == k[:width] and after[block + 2 * width : block + 5 * width] == before[block + 2 * width : block + 5 * width]
    options = ("--opt", "style=interleaved", "scaling=llama3", "theta=500000")
    run("rope_append", ["q", "k", "v", "k_cache", "v_cache", "slots", "positions"], *options, outputs=["q_out", "k_out", "v_out"])


def test_paged_decode_of_quantised_caches():
    inputs = paged(2, 4, 32, 16, 16, 3, [48, 20], "|u1")
    write_npy("k_scale", "<f4", (20, 2), [0.02] * 40)
    write_npy("v_scale", "<f4", (1, 2), [0.03, 0.01])
    run("paged_decode", [*inputs, "k_scale", "v_scale"])
    inputs = paged(2, 4, 32, 32, 16, 3, [48, 20], "|u1")
    for name in ("k_cache", "v_cache"):  # without the two codes of NaN
        write_npy(name, "|u1", (20, 2, 16, 32), [random.choice((0, 128)) + random.randrange(127) for _ in range(20480)])
    run("paged_decode", [*inputs, "k_scale", "v_scale"], "--dtype", "k_cache=f8e4m3", "v_cache=f8e4m3")


def test_paged_prefill():
    inputs = [*paged(30, 4, 32, 32, 5, 9, [12, 0, 45], "<f2"), "cu_seqlens_q"]
    write_npy("cu_seqlens_q", "<i4", (4,), [0, 12, 12, 30])
    write_floats("sinks", "<f4", 1, 2)
    run("paged_prefill", inputs, outputs=["o", "lse"])
    assert read_npy("o")[1] == (30, 4, 32) and read_npy("lse")[1] == (30, 4)
    run("paged_prefill", [*inputs, "sinks"], "--opt", "window_left=7", "softcap=1.5")


def test_attention_cached():
    inputs = [*paged(12, 4, 32, 32, 5, 9, [12, 4, 45], "<f2"), "tree"]
    write_npy("tree", "<i4", (12, 1), [random.randrange(16) for _ in range(12)])
    run("attention_cached", inputs, outputs=["o", "lse"])
    assert read_npy("o")[1] == (12, 4, 32) and read_npy("lse")[1] == (12, 4)
    write_npy("cu_seqlens_q", "<i4", (4,), [0, 5, 5, 12])
    run("paged_plan", ["context_lens"], "--opt", "parts=4", outputs=["plan"])
    options = ("--opt", "chunk=16", "window_left=7", "softcap=1.5", "max_queries=7")
    run("attention_cached", [*inputs, "cu_seqlens_q", "plan"], *options)
    write_npy("left_pad", "<i4", (3,), [10, 0, 30])
    write_floats("qv", "<f2", 12, 4, 32)
    run("attention_cached", [*inputs, "left_pad", "qv"], "--opt", "chunk=16")


def test_latent_attention():
    write_floats("q", "<f2", 4, 3, 96)
    write_floats("cache", "<f2", 6, 16, 96)
    write_npy("context_lens", "<i4", (2,), [30, 7])
    write_npy("block_tables", "<i4", (2, 2), [4, 1, 0, -3])
    inputs = ["q", "cache", "context_lens", "block_tables"]
    run("latent_decode", inputs, "--opt", "scale=0.1", outputs=["o", "lse"])
    assert read_npy("o")[1] == (4, 3, 32) and read_npy("lse")[1] == (4, 3)
    write_npy("indices", "<i4", (4, 9), [random.randrange(-1, 96) for _ in range(36)])
    run("latent_sparse", ["q", "cache", "indices"], "--opt", "scale=0.1", "latent=80", outputs=["o", "lse"])
    assert read_npy("o")[1] == (4, 3, 80)
    write_npy("cache", "|u1", (6, 16, 260), [56] * (6 * 16 * 260))  # 1 in f8e4m3
    write_floats("q", "<f2", 4, 3, 192)
    run("latent_sparse", ["q", "cache", "indices"], "--opt", "scale=0.001")


def test_block_sparse_attention():
    heads, queries, keys, width = 2, 70, 50, 32
    for name in ("q", "do"):
        write_floats(name, "<f2", 1, heads, queries, width)
    for name in "kv":
        write_floats(name, "<f2", 1, 1, keys, width)
    mask = [random.random() < 0.5 for _ in range(5 * 2)]
    mask[:2] = [False, False]
    write_npy("block_mask", "|b1", (1, 1, 5, 2), mask)
    inputs, options = ["q", "k", "v", "block_mask"], ("--opt", "block_q=16", "block_k=32", "causal=true")
    run("block_sparse_attention", inputs, *options, outputs=["o", "lse"])
    assert read_npy("o")[2][: 16 * width] == [0] * 16 * width and read_npy("lse")[2][:16] == [-math.inf] * 16
    run("block_sparse_attention_backward", [*inputs, "o", "lse", "do"], *options, outputs=["dq", "dk"])
    assert read_npy("dq")[1] == (1, heads, queries, width) and read_npy("dk")[1] == (1, 1, keys, width)


if __name__ == "__main__":
    main(globals())
