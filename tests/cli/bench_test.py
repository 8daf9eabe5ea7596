# `sectile bench`: its suites, what they report, and words it refuses.
import json

from cli import done, main, refused


def load(*words):
    printed = json.loads(done("bench", *words, "--json", "--output", "results.json").out)
    with open("results.json") as file:
        assert printed == json.load(file)
    return printed


def test_compile_and_plot():
    from xml.etree import ElementTree

    rows = load("compile", "--plot", "bars.svg")["compile"]
    assert {row["kernel"] for row in rows} >= {"matmul", "attention", "softmax"}
    assert {row["target"] for row in rows} >= {"sm_80", "gfx942"}
    for row in rows:
        assert {"trace", "passes", "optimize"} <= set(row["milliseconds"]), row
        assert all(value > 0 for value in row["milliseconds"].values()), row
    svg = "{http://www.w3.org/2000/svg}"
    root = ElementTree.parse("bars.svg").getroot()
    tips = {}
    for bar in root.iter(svg + "rect"):
        if tip := bar.findtext(svg + "title"):
            name, value = tip.split(": ")
            tips[name] = (float(value), float(bar.get("width")))
    assert len(tips) == sum(len(row["milliseconds"]) for row in rows)
    for row in rows:
        for stage, milliseconds in row["milliseconds"].items():
            value, width = tips[f"{row['kernel']}, {row['target']}, {stage}"]
            assert abs(value - milliseconds) <= 1e-3 * milliseconds
    # The longer the bar the larger the figure, in one proportion.
    longest = max(tips.values())
    assert all(abs(width / longest[1] - value / longest[0]) < 0.01 for value, width in tips.values())
    refused("bench", "launch", "--plot", "bars.png", says="bars.png")
    refused("bench", "launch", "--plot", "none/bars.svg", says="none/bars.svg")


def test_virtual():
    rows = load("virtual", "--device", "virtual:sm_80")["virtual"]
    assert [row["kernel"] for row in rows] == ["matmul", "attention"]
    assert all(row["mma_per_second"] > 0 and row["blocks_per_second"] > 0 for row in rows), rows


def test_words():
    refused("bench", "speed", says=("'speed'", "compile, launch, virtual"))
    refused("bench", "virtual", "--device", "virtual:sm_1", says="--device")
    refused("bench", "launch", "--output", "none/x.json", says="'none/x.json'")


main(globals())
