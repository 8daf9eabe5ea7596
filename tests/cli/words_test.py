# The command line's words: commands, options, help, versions.
import json

from cli import SECTILE, done, main, refused


def test_help():
    for words in ([], ["help"], ["--help"], ["-h"]):
        assert "list [KERNEL]" in done(*words).out
    assert "usage: sectile list [KERNEL]" in done("help", "list").out
    assert "usage: sectile list [KERNEL]" in done("list", "--help").out
    refused("help", "nothing", says="'nothing'")


def test_every_command_has_help():
    commands = json.loads(done("help", "--json").out)
    assert len(commands) > 15
    for command in commands:
        out = done("help", *command["name"].split()).out
        assert f"example: sectile {command['name']}" in out, out
        assert "--json" in out, out  # every command prints JSON
        assert max(map(len, out.splitlines())) <= 120, max(out.splitlines(), key=len)
    assert [c["name"] for c in json.loads(done("help", "cache", "clear", "--json").out)] == ["cache clear"]


def test_end_of_options():
    refused("list", "--", "--json", says="there is no kernel '--json'")
    refused("list", "--", "--help", says="there is no kernel '--help'")
    assert "arguments:" in done("list", "--", "matmul").out


def test_version():
    assert done("--version").out.startswith("sectile 0.")


def test_unknown_words():
    refused("lst", says=("'lst'", "is it 'list'?"))
    refused("somethingelse", says=("'somethingelse'", "the commands are demo, info"))
    refused("cache", "prun", says=("'cache prun'", "is it 'prune'?"))
    refused("compile", "matmul", "--tarjet", "sm_80", says=("'--tarjet'", "is it '--target'?"))
    refused("list", "--long", says=("'--long'", "takes --json"))
    refused("list", "matmul", "softmax", says="unexpected argument 'softmax'")


def test_list():
    out = done("list").out
    for name in ("vector_add", "softmax", "layer_norm", "matmul", "attention"):
        assert name in out
    assert max(map(len, out.splitlines())) <= 100, max(out.splitlines(), key=len)
    assert "\nnorms\n" in out and "\nattention\n" in out, out
    kernels = json.loads(done("list", "--json").out)
    assert {k["family"] for k in kernels if k["name"].startswith("conv2d")} == {"convolutions"}
    assert all(f"  {kernel['name']} " in out for kernel in kernels)
    (softmax,) = json.loads(done("list", "softmax", "--json").out)
    assert softmax["name"] == "softmax" and softmax["arguments"][0]["name"] == "x", softmax
    out = done("list", "attention").out
    for word in ("q ", "[B, Hq, Sq, D]", "lse", "causal", "scale", "f16, bf16 or f32", "stages"):
        assert word in out, word
    refused("list", "matmull", says=("'matmull'", "matmul"))


def test_info():
    out = done("info").out
    for word in ("sectile", "LLVM", "sm_90a", "gfx942"):
        assert word in out, word
    out = done("info", env={"SECTILE_CUDA_LIBRARY": "/nowhere/libcuda.so"}).out
    assert "none: no CUDA driver: /nowhere/libcuda.so: cannot open shared object file" in out, out
    answer = json.loads(done("info", "--json", env={"SECTILE_CUDA_LIBRARY": ""}).out)
    assert answer["missing"]["cuda"] == "CUDA is switched off: SECTILE_CUDA_LIBRARY is empty", answer
    assert "virtual:sm_90a" in answer["devices"] and answer["best"]["device"], answer
    # A device that does not open is a line of the report, not the end of it.
    assert "unknown device 'nothing'" in done("info", env={"SECTILE_DEVICE": "nothing"}).out


def test_demo():
    words = ("demo", "--device", "virtual:sm_80")
    out = done(*words).out
    for word in ("simulated times", "1st run", "largest", "allowed", "M=512"):
        assert word in out, (word, out)
    answer = json.loads(done(*words, "--json").out)
    assert answer["simulated"] is True and len(answer["kernels"]) == 5, answer
    assert all(row["ok"] and row["max_error"] <= row["max_bound"] for row in answer["kernels"])


def test_json_numbers_are_rounded():
    row = json.loads(done("demo", "--device", "virtual:sm_80", "--json").out)["kernels"][0]
    assert all(len(repr(row[key]).replace(".", "").strip("0")) < 12 for key in ("first_ms", "next_ms")), row


def test_output_that_cannot_be_written():
    import subprocess

    with open("/dev/full", "w") as full:
        result = subprocess.run([SECTILE, "list"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 2 and "standard output" in result.stderr, result


main(globals())
