# `sectile run` of reductions, scans, sorting and counting, from files.
import random
import sys

from cli import done, main, read_npy, write_npy

DEVICE = ("--device", sys.argv[2])
rng = random.Random(9)


def run(kernel, *words):
    done("run", kernel, "--in", "x=x", *words, "--check", *DEVICE)


def test_rows():
    x = [rng.gauss(0, 1) for _ in range(3 * 50)]
    rows = [x[i * 50 : i * 50 + 50] for i in range(3)]
    write_npy("x", "<f4", (3, 50), x)
    run("reduce", "--opt", "op=argmax", "--out", "y=y")
    assert read_npy("y") == ("<i8", (3,), [row.index(max(row)) for row in rows])
    run("reduce", "--opt", "op=mean")
    run("scan", "--opt", "op=cummax", "reverse=true", "--out", "y=y")
    assert read_npy("y")[1] == (3, 50)
    run("sort", "--out", "indices=i")
    order = [sorted(range(50), key=row.__getitem__) for row in rows]
    assert read_npy("i")[2] == sum(order, [])
    run("argsort", "--opt", "descending=true", "--out", "indices=i")
    assert read_npy("i")[2] == sum((places[::-1] for places in order), [])
    run("topk", "--opt", "k=5", "--out", "indices=i")
    assert read_npy("i")[2] == sum((places[::-1][:5] for places in order), [])


def test_histogram():
    x = [rng.randint(-1, 9) for _ in range(500)]
    write_npy("x", "<i4", (500,), x)
    run("histogram", "--opt", "bins=8", "--out", "counts=c")
    assert read_npy("c") == ("<i4", (8,), [x.count(i) for i in range(8)])


if __name__ == "__main__":
    main(globals())
