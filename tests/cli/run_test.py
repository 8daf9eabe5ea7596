# `sectile run` on the virtual GPU: results, checks, dtypes and orders of files, special values.
import json
import math
import os
import random
import sys

from cli import done, main, read_npy, write_npy

DEVICE = ("--device", sys.argv[2])
rng = random.Random(7)


def floats(count, spread=1.0):
    return [rng.gauss(0, spread) for _ in range(count)]


def test_vector_add_is_exact():
    for shape in ((), (1,), (1000,), (3, 5, 7)):
        count = math.prod(shape)
        x, y = [float(i) for i in range(count)], [0.5 * i - 3 for i in range(count)]
        write_npy("x.npy", "<f4", shape, x)
        write_npy("y.npy", "<f4", shape, y)
        done("run", "vector_add", "--in", "x=x.npy", "y=y.npy", "--out", "z=z.npy", *DEVICE, "--check")
        assert read_npy("z.npy") == ("<f4", shape, [a + b for a, b in zip(x, y)])
    assert sorted(os.listdir()) == ["x.npy", "y.npy", "z.npy"]


def test_orders_and_dtypes_of_files():
    values = [float(i) for i in range(12)]
    fortran = [values[i * 4 + j] for j in range(4) for i in range(3)]
    write_npy("x.npy", "<f4", (3, 4), fortran, fortran=True)
    write_npy("y.npy", "<f4", (3, 4), values)
    done("run", "vector_add", "--in", "x=x.npy", "y=y.npy", "--out", "z=z.npy", *DEVICE)
    assert read_npy("z.npy")[2] == [2 * v for v in values]
    for descr in ("<f2", "<f8"):
        write_npy("x.npy", descr, (12,), values)
        done("run", "vector_add", "--in", "x=x.npy", "y=x.npy", "--out", "z=z.npy", *DEVICE)
        assert read_npy("z.npy") == (descr, (12,), [2 * v for v in values])


def test_bfloat16_by_name():
    write_npy("x.npy", "<u2", (3,), [0x3F80, 0x4000, 0xC040])  # 1, 2, -3
    for words in (("--dtype", "bf16"), ("--dtype", "x=bf16", "y=bf16")):
        done("run", "vector_add", "--in", "x=x.npy", "y=x.npy", "--out", "z=z.npy", *words, *DEVICE)
        assert read_npy("z.npy") == ("<u2", (3,), [0x4000, 0x4080, 0xC0C0])


def test_softmax():
    for rows, length in ((1, 1), (3, 17), (2, 1000), (2, 5000)):
        write_npy("x.npy", "<f4", (rows, length), floats(rows * length, 3))
        done("run", "softmax", "--in", "x=x.npy", "--out", "y=y.npy", "--check", *DEVICE)
        y = read_npy("y.npy")[2]
        for row in range(rows):
            assert abs(sum(y[row * length : (row + 1) * length]) - 1) < 1e-4


def test_nan_and_infinities():
    inf, nan = math.inf, math.nan
    write_npy("x.npy", "<f4", (4, 3), [-inf, -inf, -inf, nan, 0, 1, inf, 0, 1, -inf, 0, -inf])
    done("run", "softmax", "--in", "x=x.npy", "--out", "y=y.npy", "--check", *DEVICE)
    y = read_npy("y.npy")[2]
    assert all(map(math.isnan, y[:9])) and y[9:] == [0, 1, 0], y


def test_empty_arrays():
    for shape in ((0,), (0, 5), (5, 0)):
        write_npy("x.npy", "<f4", shape)
        done("run", "softmax", "--in", "x=x.npy", "--out", "y=y.npy", "--check", *DEVICE)
        assert read_npy("y.npy") == ("<f4", shape, [])
    write_npy("a.npy", "<f2", (3, 0))
    write_npy("b.npy", "<f2", (0, 2))
    done("run", "matmul", "--in", "a=a.npy", "b=b.npy", "--out", "c=c.npy", "--check", *DEVICE)
    assert read_npy("c.npy") == ("<f2", (3, 2), [0] * 6)
    for sizes in (((1, 2, 0, 16), (1, 2, 5, 16)), ((1, 2, 3, 16), (1, 2, 0, 16))):
        for name, shape in zip("qkv", (sizes[0], sizes[1], sizes[1])):
            write_npy(name, "<f2", shape)
        done("run", "attention", "--in", "q=q", "k=k", "v=v", "--out", "o=o", "lse=l", "--check", *DEVICE)
        assert set(read_npy("o")[2]) <= {0} and set(read_npy("l")[2]) <= {-math.inf}


def test_layer_norm():
    for rows, length in ((1, 1), (5, 33), (3, 3000)):
        write_npy("x.npy", "<f4", (rows, length), [10000 + v for v in floats(rows * length)])
        write_npy("w.npy", "<f4", (length,), floats(length))
        write_npy("b.npy", "<f4", (length,), floats(length))
        done("run", "layer_norm", "--in", "x=x.npy", "w=w.npy", "b=b.npy", "--out", "y=y.npy", "mean=m.npy",
             "rstd=r.npy", "--opt", "eps=1e-3", "--check", *DEVICE)  # fmt: skip
        assert read_npy("m.npy")[1] == (rows,) and read_npy("y.npy")[1] == (rows, length)


def test_matmul_integers_are_exact():
    m, n, k = 33, 17, 50
    a = [float(rng.randint(-4, 4)) for _ in range(m * k)]
    b = [float(rng.randint(-4, 4)) for _ in range(k * n)]
    c = [sum(a[i * k + p] * b[p * n + j] for p in range(k)) for i in range(m) for j in range(n)]
    at = [a[i * k + p] for p in range(k) for i in range(m)]
    bt = [b[p * n + j] for j in range(n) for p in range(k)]
    for descr in ("<f2", "<f4"):
        for trans_a in (False, True):
            for trans_b in (False, True):
                write_npy("a.npy", descr, (k, m) if trans_a else (m, k), at if trans_a else a)
                write_npy("b.npy", descr, (n, k) if trans_b else (k, n), bt if trans_b else b)
                done("run", "matmul", "--in", "a=a.npy", "b=b.npy", "--out", "c=c.npy", "--check", *DEVICE,
                     "--opt", f"trans_a={str(trans_a).lower()}", f"trans_b={int(trans_b)}")  # fmt: skip
                assert read_npy("c.npy") == (descr, (m, n), c)


def test_attention():
    for heads, kv_heads, queries, keys, width in ((2, 2, 17, 17, 64), (8, 2, 33, 65, 80), (1, 1, 1, 129, 16)):
        write_npy("q", "<f2", (1, heads, queries, width), floats(heads * queries * width))
        for name in "kv":
            write_npy(name, "<f2", (1, kv_heads, keys, width), floats(kv_heads * keys * width))
        for causal in ("true", "false"):
            done("run", "attention", "--in", "q=q", "k=k", "v=v", "--out", "o=o", "--opt", f"causal={causal}",
                 "--check", *DEVICE)  # fmt: skip
            assert read_npy("o")[1] == (1, heads, queries, width)


def test_attention_of_other_types_and_widths():
    # Fewer keys than queries: the first rows see none.
    for descr, heads, queries, keys, width in (("<f4", 1, 33, 70, 64), ("<f2", 2, 70, 33, 128), ("<f2", 1, 20, 20, 17),
                                               ("<f4", 1, 20, 20, 256)):  # fmt: skip
        write_npy("q", descr, (1, heads, queries, width), floats(heads * queries * width))
        for name in "kv":
            write_npy(name, descr, (1, heads, keys, width), floats(heads * keys * width))
        done("run", "attention", "--in", "q=q", "k=k", "v=v", "--out", "lse=l", "--opt", "causal=true", "scale=0.3",
             "--check", *DEVICE)  # fmt: skip
        hidden = max(queries - keys, 0)
        assert read_npy("l")[2][:hidden] == [-math.inf] * hidden


def test_matmul_precisions_and_edges():
    for descr, m, n, k in (("<f4", 65, 129, 77), ("<f2", 1, 300, 200), ("<f2", 300, 1, 33), ("<f4", 1, 1, 1)):
        write_npy("a.npy", descr, (m, k), floats(m * k))
        write_npy("b.npy", descr, (k, n), floats(k * n))
        for precision in ("tf32", "exact"):
            done("run", "matmul", "--in", "a=a.npy", "b=b.npy", "--check", "--opt", f"precision={precision}", *DEVICE)


def test_demo_shows_five_kernels():
    lines = done("demo", *DEVICE).out.splitlines()
    kernels = [line.split()[0] for line in lines if line.endswith(" ok")]
    assert kernels == ["vector_add", "softmax", "layer_norm", "matmul", "attention"], lines


def test_repeat_and_config():
    write_npy("x.npy", "<f4", (100,), floats(100))
    out = done("run", "vector_add", "--in", "x=x.npy", "y=x.npy", "--repeat", "3", "--config", "size=256",
               *DEVICE).out  # fmt: skip
    assert "3 runs" in out and "size=256" in out, out
    assert ("simulated" in out) == (not DEVICE[-1].startswith(("cuda", "hip"))), out
    words = ("--in", "x=x.npy", "y=x.npy", "--check", "--json", *DEVICE)
    (output,) = json.loads(done("run", "vector_add", *words).out)["outputs"]
    assert output["ok"] and 0 <= output["max_error"] <= output["max_bound"] < output["largest_value"], output


main(globals())
