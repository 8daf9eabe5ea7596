# The command line's words: commands, options, help, versions.
from cli import done, main, refused, sectile


def test_help():
    for words in ([], ["help"], ["--help"], ["-h"]):
        assert "list [KERNEL]" in done(*words).out
    assert "usage: sectile list [KERNEL]" in done("help", "list").out
    assert "usage: sectile list [KERNEL]" in done("list", "--help").out
    refused("help", "nothing", says="'nothing'")


def test_version():
    assert done("--version").out.startswith("sectile 0.")


def test_unknown_words():
    refused("lst", says=("'lst'", "list"))
    refused("list", "--long", says=("'--long'", "takes none"))
    refused("list", "matmul", "softmax", says="unexpected argument 'softmax'")


def test_list():
    out = done("list").out
    for name in ("vector_add", "softmax", "layer_norm", "matmul", "attention"):
        assert name in out
    out = done("list", "attention").out
    for word in ("q ", "[B, Hq, Sq, D]", "lse", "causal", "scale", "f16, bf16 or f32", "stages"):
        assert word in out, word
    refused("list", "matmull", says=("'matmull'", "matmul"))


def test_info():
    out = done("info").out
    for word in ("sectile", "LLVM", "sm_90a", "gfx942"):
        assert word in out, word


def test_output_that_cannot_be_written():
    import subprocess
    from cli import SECTILE

    with open("/dev/full", "w") as full:
        result = subprocess.run([SECTILE, "list"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 2 and "standard output" in result.stderr, result


main(globals())
