# Kernels of a shared library: load_test.py SECTILE LIBRARY
import json
import os
import shutil
import sys
import tempfile

from cli import done, main, refused, sectile, write_npy

LIBRARY = os.path.abspath(sys.argv[2])
LOAD = ("--load", LIBRARY)


def test_list():
    out = done(*LOAD, "list").out
    assert "\nyour own\n  scale_rows" in out, out
    assert "scale_rows" not in done("list").out
    out = done("list", "scale_rows", *LOAD).out  # anywhere before "--"
    assert "y = x * w + offset" in out and "of each row" in out and "default 0, " not in out, out
    row = json.loads(done(f"--load={LIBRARY}", "list", "scale_rows", "--json").out)[0]
    assert row["family"] == "your own" and [a["name"] for a in row["arguments"]] == ["x", "w", "y"], row
    assert [(c["name"], c["doc"]) for c in row["config"]] == [("block", "elements of a row at once"), ("warps", "")]


def test_compile():
    out = done(*LOAD, "compile", "scale_rows", "--target", "sm_90a", "--emit", "ptx", "--dtype", "f16").out
    assert ".target sm_90a" in out and "scale_rows" in out, out[:400]
    assert "scale_rows" in done(*LOAD, "compile", "scale_rows", "--target", "gfx942", "--emit", "amdgcn").out
    refused(*LOAD, "compile", "scale_rows", "--target", "sm_90a", "--emit", "ptx", "--config", "block=0",
            says=("'block'", "from 1 to"))


def test_run():
    with tempfile.TemporaryDirectory() as folder:
        x = write_npy(f"{folder}/x.npy", "<f4", (7, 1000), [i % 13 - 6 for i in range(7000)])
        w = write_npy(f"{folder}/w.npy", "<f4", (7,), [0.5 * i - 1 for i in range(7)])
        for device in ("virtual:sm_90a", "virtual:gfx942", "interpreter"):
            out = done(*LOAD, "run", "scale_rows", "--in", f"x={x}", f"w={w}", "--opt", "offset=0.25",
                       "--device", device, "--check").out
            assert "ok" in out and "FAILED" not in out, out
        refused(*LOAD, "run", "scale_rows", "--in", f"x={x}", "--check", says=("'w' is missing",))
        refused(*LOAD, "run", "scale_rows", "--in", f"x={x}", f"w={x}", "--check", says=("w (", "1 axis"))


def test_tune_and_bench():
    with tempfile.TemporaryDirectory() as folder:
        env = {"SECTILE_CACHE_DIR": folder}
        words = ("--shape", "M=8,N=300", "--device", "virtual:sm_80", "--quiet", "--json")
        report = json.loads(done(*LOAD, "tune", "scale_rows", *words, env=env).out)[0]
        assert len(report["candidates"]) == 12 and "best" in report, report
        again = json.loads(done(*LOAD, "tune", "scale_rows", *words, env=env).out)[0]
        assert all(row["known"] for row in again["candidates"]), again
        assert "scale_rows" in done(*LOAD, "cache", "best", "scale_rows", env=env).out
        out = done(*LOAD, "bench", "kernels", "--small", "--kernel", "scale_rows", "--device", "virtual:sm_80",
                   "--dtype", "f32", env=env).out
        assert "scale_rows" in out and "M=5" in out, out


def test_what_cannot_be_loaded():
    refused("--load", says="--load needs a value: FILE")
    refused("--load", "--json", "list", says="--load needs a value: FILE")
    refused("--load=", "list", says="--load needs a value: FILE")
    refused("--load", "/nowhere/libmine.so", "list", says=("--load: ", "/nowhere/libmine.so"))
    refused("--load", __file__, "list", says="--load: ")
    refused("--load", "libm.so.6", "list", says=("'libm.so.6' has no function", "sectile_register_kernels()"))
    refused(*LOAD, *LOAD, "list", says="there is a kernel 'scale_rows' already")
    refused("list", "--", *LOAD, says="unexpected argument")
    assert sectile("list", "scale_row").status == 2
    refused(*LOAD, "list", "scale_row", says="is it 'scale_rows'?")


def test_a_name_alone_is_a_file_here():
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(LIBRARY, f"{folder}/libmine.so")
        before = os.getcwd()
        os.chdir(folder)
        try:
            assert "scale_rows" in done("--load", "libmine.so", "list").out
        finally:
            os.chdir(before)


main(globals())
