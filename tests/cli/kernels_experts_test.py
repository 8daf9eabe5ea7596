# `sectile run` of mixtures of experts, from files.
import random

from cli import main, read_npy, run, write_floats, write_npy


def test_route_and_permute():
    x = [random.gauss(0, 1) for _ in range(5 * 12)]
    write_npy("logits", "<f4", (5, 12), x)
    run("moe_route", ["logits"], "--opt", "k=3", "renormalize=true", outputs=["weights=w", "experts=e"])
    rows = [x[i * 12 : i * 12 + 12] for i in range(5)]
    best = [sorted(range(12), key=row.__getitem__, reverse=True)[:3] for row in rows]
    assert read_npy("e") == ("<i4", (5, 3), sum(best, []))
    assert abs(sum(read_npy("w")[2]) - 5) < 1e-5
    write_npy("dweights", "<f4", (5, 3), [1, 0, 0] * 5)
    write_npy("experts", "<i4", (5, 3), sum(best, []))
    run("moe_route_backward", ["logits", "experts", "dweights"], "--opt", "k=3", outputs=["dlogits=d"])
    assert max(abs(sum(read_npy("d")[2][i * 12 : i * 12 + 12])) for i in range(5)) < 1e-5
    run("moe_permute", ["experts"], "--opt", "count=12", outputs=["counts=c", "order=o", "inverse=i"])
    choices = sum(best, [])
    order = sorted(range(15), key=choices.__getitem__)
    assert read_npy("o")[2] == order and read_npy("c")[2] == [choices.count(e) for e in range(12)]
    assert [read_npy("i")[2][choice] for choice in order] == list(range(15))


def test_products():
    write_floats("x", "<f2", 6, 16)
    write_floats("w", "<f2", 3, 16, 24)
    write_npy("counts", "<i4", (3,), [4, 0, 2])
    write_npy("rows", "<i4", (6,), [5, 0, 1, 1, 2, 3])
    run("moe_up", ["x", "w", "counts", "rows"], "--opt", "gate=interleaved", "limit=7", outputs=["h"])
    assert read_npy("h")[1] == (6, 12)
    write_floats("h", "<f2", 6, 16)
    write_npy("inverse", "<i4", (3, 2), [0, 1, 2, 3, 4, -1])
    write_npy("weights", "<f4", (3, 2), [0.5] * 6)
    run("moe_down", ["h", "w", "counts", "inverse", "weights"], outputs=["y"])
    assert read_npy("y")[1] == (3, 24)
    write_npy("parts", "<f4", (6, 2), list(range(12)))
    run("moe_combine", ["parts", "inverse", "weights"], outputs=["y"])
    assert read_npy("y")[2] == [1, 2, 5, 6, 4, 4.5]
    write_npy("dy", "<f4", (3, 2), [1, 2, 3, 4, 5, 6])
    run("moe_combine_backward", ["parts", "inverse", "weights", "dy"], outputs=["dparts=p", "dweights=w"])
    assert read_npy("p")[2] == [0.5, 1, 0.5, 1, 1.5, 2, 1.5, 2, 2.5, 3, 0, 0]
    assert read_npy("w")[2] == [2, 8, 32, 46, 94, 0]


if __name__ == "__main__":
    main(globals())
