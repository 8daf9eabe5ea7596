# `sectile bench`: its suites, what they report, and words it refuses.
import json

from cli import done, main, refused


def load(*words):
    done("bench", *words, "--json", "results.json")
    with open("results.json") as file:
        return json.load(file)


def test_compile():
    rows = load("compile")["compile"]
    assert {row["kernel"] for row in rows} >= {"matmul", "attention", "softmax"}
    assert {row["target"] for row in rows} >= {"sm_80", "gfx942"}
    for row in rows:
        assert {"trace", "passes", "optimize"} <= set(row["milliseconds"]), row
        assert all(value > 0 for value in row["milliseconds"].values()), row


def test_virtual():
    rows = load("virtual", "--device", "virtual:sm_80")["virtual"]
    assert [row["kernel"] for row in rows] == ["matmul", "attention"]
    assert all(row["mma_per_second"] > 0 and row["blocks_per_second"] > 0 for row in rows), rows


def test_words():
    refused("bench", "speed", says=("'speed'", "compile, launch, virtual"))
    refused("bench", "virtual", "--device", "virtual:sm_1", says="--device")
    refused("bench", "launch", "--json", "none/x.json", says="'none/x.json'")


main(globals())
