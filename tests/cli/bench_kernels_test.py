# `sectile bench kernels`: what it reports of every kernel, and that nothing ends it.
import json
import os
import signal
import subprocess
import sys
import time

from cli import SECTILE, done, main, refused, sectile

FAKE = {"SECTILE_CUDA_LIBRARY": os.path.abspath(sys.argv[2]), "SECTILE_CACHE_DIR": ""}
SHAPES = os.path.abspath(sys.argv[3])
VIRTUAL = ("--device", "virtual:sm_80")


def bench(*words, env=None, status=0):
    result = sectile("bench", "kernels", *words, "--output", "results.json", env={"SECTILE_CACHE_DIR": "", **(env or {})})
    assert result.status == status, (words, result.status, result.out, result.err)
    with open("results.json") as file:
        return json.load(file)["kernels"], result


def registry():
    return [kernel["name"] for kernel in json.loads(done("list", "--json").out)]


def check_row(row, estimated):
    assert row["median_us"] > 0 and row["low_us"] <= row["median_us"] <= row["high_us"], row
    assert row["estimated"] is estimated and (row["runs"] == 0) is estimated, row
    sizes = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "bool": 1, "i8": 1, "u8": 1, "i32": 4, "u32": 4, "i64": 8, "u64": 8,
             "f8e4m3": 1, "f8e5m2": 1}  # fmt: skip
    total = 0
    for argument in row["arguments"]:
        count = 1
        for extent in argument["shape"]:
            count *= extent
        # How much is updated the extents do not tell: neither the output nor its input counts.
        total += (-1 if "updates" in argument else 1) * count * sizes[argument["dtype"]]
        if "values" in argument:
            assert len(argument["values"]) == count, argument
            assert argument["least"] == min(argument["values"]), argument
            assert argument["most"] == max(argument["values"]), argument
            assert abs(argument["mean"] * count - sum(argument["values"])) < 1e-6 * (1 + sum(map(abs, argument["values"]))), argument
    assert row["bytes"] == total, row
    assert any(argument["output"] for argument in row["arguments"]), row
    assert {"device", "product", "target", "config", "shape", "extents", "options"} <= set(row), row


def test_every_kernel_is_estimated_on_a_virtual_device():
    rows, result = bench("--small", "--plot", "bars.svg", *VIRTUAL)
    assert [row["kernel"] for row in rows] == registry()
    for row in rows:
        check_row(row, estimated=True)
    assert "nothing was timed" in result.out and result.out.count("estimated") == len(rows)
    with open("bars.svg") as file:
        assert all(row["kernel"] in text for text in [file.read()] for row in rows)


def test_rates():
    with open("shapes", "w") as file:
        file.write("matmul M=64,N=32,K=16\nattention B=1,Hq=2,Hkv=1,Sq=3,Sk=4,D=16,Dv=32 opt causal=true  # 2 + 3 + 4 pairs\n")
    (product, attention), result = bench("--file", "shapes", *VIRTUAL)
    assert product["flops"] == 2 * 64 * 32 * 16 and product["bytes"] == 2 * (64 * 16 + 16 * 32 + 64 * 32)
    assert attention["flops"] == 2 * (2 + 3 + 4) * 2 * (16 + 32)
    shown = result.out.splitlines()[2].split()
    assert float(shown[-2]) == round(product["bytes"] / product["median_us"] / 1e3), shown
    assert abs(float(shown[-1]) - product["flops"] / product["median_us"] / 1e6) <= 0.05, shown


def test_lines_of_a_file():
    with open("shapes", "w") as file:
        file.write(
            "# remarks\n\nmatmul m=32,n=32,k=32 dtype bf16 opt trans_b=true config m=32 n=16\n"
            "attention B=1,Hq=1,Hkv=1,Sq=16,Sk=16,D=16,Dv=16 with bias,mask opt causal=1 softcap=5\nsoftmax ...=4,N=64\n"
            "embedding ...=4,H=64,V=9 dtype bf16,indices=i32\n"
        )
    product, attention, softmax, embedding = bench("--file", "shapes", *VIRTUAL)[0]
    assert {a["name"]: a["dtype"] for a in product["arguments"]} == {"a": "bf16", "b": "bf16", "c": "bf16"}
    assert product["options"]["trans_b"] == "true" and product["shape"].endswith("bf16 trans_b=true"), product
    assert product["config"].startswith("m=32 n=16 k="), product
    assert [a["name"] for a in attention["arguments"]] == ["q", "k", "v", "bias", "mask", "o", "lse"]
    assert attention["options"]["causal"] == "true" and float(attention["options"]["softcap"]) == 5
    assert len(next(a for a in attention["arguments"] if a["name"] == "mask")["values"]) == 256
    assert softmax["extents"] == {"...": 4, "N": 64} and softmax["arguments"][0]["dtype"] == "f16"
    assert [a["dtype"] for a in embedding["arguments"]] == ["bf16", "i32", "bf16"]
    only = bench("--file", "shapes", "--kernel", "softmax,matmul", *VIRTUAL)[0]
    assert [row["kernel"] for row in only] == ["matmul", "softmax"]


def test_a_device_is_timed():
    rows, result = bench("--small", "--kernel", "softmax,matmul,attention", "--device", "cuda:0", env=FAKE)
    for row in rows:
        check_row(row, estimated=False)
        assert row["runs"] >= 5 and row["product"] == "Fake H" and row["target"] == "sm_90a", row
    assert "estimate" not in result.out and "Fake H (cuda:0)" in result.out


def test_a_kernel_that_spoils_the_device_costs_its_own_row():
    def failing(**fault):
        rows, result = bench("--small", "--kernel", "softmax,matmul,rope", "--device", "cuda:0", *words,
                             env={**FAKE, **fault}, status=1)  # fmt: skip
        assert [row["kernel"] for row in rows] == ["softmax", "matmul", "rope"]
        for row in rows:
            assert row["error"] and row["shape"] and row["kernel"] + " " + row["shape"] + ": " + row["error"] in result.out
        return [row["error"] for row in rows]

    words = ()
    assert all("ILLEGAL_ADDRESS" in error for error in failing(FAKE_CUDA_LOST_AFTER_LAUNCHES="3"))
    assert all("ended its process" in error for error in failing(FAKE_CUDA_KILLED_AT_LAUNCH="3"))
    # What the one did is nothing to the next: the processes are different ones.
    words = ("--deadline", "1.5")
    for error in failing(FAKE_CUDA_ENDLESS_LAUNCH="3"):
        assert "ended its process" in error or "did not end within" in error, error


def test_what_was_measured_stays_where_it_is_cut_off():
    words = ("bench", "kernels", "--small", "--output", "cut.json", *VIRTUAL)
    with subprocess.Popen([SECTILE, *words], env={**os.environ, "SECTILE_CACHE_DIR": ""}, stdout=subprocess.DEVNULL) as ending:
        while ending.poll() is None and not os.path.exists("cut.json"):
            time.sleep(0.01)
        ending.kill()
    assert ending.returncode == -signal.SIGKILL, ending.returncode
    with open("cut.json") as file:
        rows = json.load(file)["kernels"]
    assert 0 < len(rows) < len(registry()) and [row["kernel"] for row in rows] == registry()[: len(rows)]
    for row in rows:
        check_row(row, estimated=True)


def test_a_pipe_is_written_once():
    result = done("bench", "kernels", "--small", "--kernel", "softmax", "--json", "--output", "/dev/stderr", *VIRTUAL)
    assert json.loads(result.err) == json.loads(result.out), (result.out, result.err)


def test_a_budget():
    rows, result = bench("--small", "--budget", "0.001", *VIRTUAL)
    assert len(rows) == 1 and "the budget was spent after 1 of" in result.err


def test_shapes_of_the_library():
    """The file names every kernel and is right for each: the interpreter refuses when all was understood."""
    with open(SHAPES) as file:
        named = {line.split()[0] for line in file if line.strip() and not line.startswith("#")}
    assert named == set(registry()), named ^ set(registry())
    refused("bench", "kernels", "--file", SHAPES, "--device", "interpreter", says="the interpreter has no time")


def test_words():
    refused("bench", "kernels", *VIRTUAL, says=("virtual:sm_80", "--small"))
    refused("bench", "kernels", "--kernel", "nothing", says="'nothing'")
    refused("bench", "kernels", "--small", "--file", "x", says="--file")
    refused("bench", "kernels", "--dtype", "f12", says="'f12'")
    refused("bench", "launch", "--kernel", "matmul", says="--kernel")
    for text, says in (
        ("matmul m=1\nmatmul q=1", ("shapes:2:", "'q'")),
        ("softmax N=x", "shapes:1:"),
        ("\nnone N=1", ("shapes:2:", "'none'")),
        ("matmul opt trans_b", ("shapes:1:", "trans_b")),
        ("matmul dtype", ("shapes:1:", "dtype")),
        ("embedding dtype f16,indices=i33", ("shapes:1:", "'i33'")),
        ("embedding dtype places=i32", ("shapes:1:", "'places'")),
        ("# nothing", "no shapes"),
    ):
        with open("shapes", "w") as file:
            file.write(text)
        refused("bench", "kernels", "--file", "shapes", *VIRTUAL, says=says)


main(globals())
