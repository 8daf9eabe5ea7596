# `sectile run` of reductions, scans, sorting and counting, from files.
import random

from cli import main, read_npy, run, write_npy


def test_rows():
    x = [random.gauss(0, 1) for _ in range(3 * 50)]
    rows = [x[i * 50 : i * 50 + 50] for i in range(3)]
    write_npy("x", "<f4", (3, 50), x)
    run("reduce", ["x"], "--opt", "op=argmax", outputs=["y"])
    assert read_npy("y") == ("<i8", (3,), [row.index(max(row)) for row in rows])
    run("reduce", ["x"], "--opt", "op=mean")
    run("scan", ["x"], "--opt", "op=cummax", "reverse=true", outputs=["y"])
    assert read_npy("y")[1] == (3, 50)
    run("sort", ["x"], outputs=["indices=i"])
    order = [sorted(range(50), key=row.__getitem__) for row in rows]
    assert read_npy("i")[2] == sum(order, [])
    run("argsort", ["x"], "--opt", "descending=true", outputs=["indices=i"])
    assert read_npy("i")[2] == sum((places[::-1] for places in order), [])
    run("topk", ["x"], "--opt", "k=5", outputs=["indices=i"])
    assert read_npy("i")[2] == sum((places[::-1][:5] for places in order), [])


def test_histogram():
    x = [random.randint(-1, 9) for _ in range(500)]
    write_npy("x", "<i4", (500,), x)
    run("histogram", ["x"], "--opt", "bins=8", outputs=["counts=c"])
    assert read_npy("c") == ("<i4", (8,), [x.count(i) for i in range(8)])


if __name__ == "__main__":
    main(globals())
