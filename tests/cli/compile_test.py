# `sectile compile`: every kernel, target and form, judged by the tools for each where they are there.
import json
import os
import re
import shutil
import subprocess
import time

from cli import done, main, refused
from ptxas import report_on, spilt_in

KERNELS = ("vector_add", "softmax", "layer_norm", "matmul", "attention")
NVIDIA = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_103a", "sm_120", "sm_120a")
AMD = ("gfx942", "gfx1100")


def emit(kernel, target, form, *more):
    done("compile", kernel, "--target", target, "--emit", form, "-o", "code", *more)
    with open("code", "rb") as file:
        return file.read()


def test_text_forms():
    for kernel in KERNELS:
        assert b"tile." in emit(kernel, "sm_80", "tile")
        assert b"#cta." in emit(kernel, "sm_80", "cta")
        assert b"define" in emit(kernel, "sm_80", "llvm")
        assert b".visible .entry" in emit(kernel, "sm_80", "ptx")
        assert b".amdhsa_kernel" in emit(kernel, "gfx942", "amdgcn")
    assert ".entry" in done("compile", "softmax", "--target", "sm_80", "--emit", "ptx").out


def test_checks_by_environment():
    def code(**env):
        return done("compile", "vector_add", "--target", "sm_80", "--emit", "cta", env=env).out

    assert "cta.assert" not in code()
    assert "cta.assert" in code(SECTILE_CHECKED="1")
    assert "cta.assert" in code(SECTILE_CHECKED="1", SECTILE_DEBUG="0")
    assert "cta.assert" not in code(SECTILE_CHECKED="0")


def test_loops_as_written():
    def copies(*target, **env):
        words = ("--shape", "m=512,n=512,k=512", "--target", *target, "--emit", "ptx")
        return done("compile", "matmul", *words, env=env).out.count("cp.async")

    for target in ("sm_80", "sm_90a"):
        assert copies(target) > 0
        assert copies(target, SECTILE_LOOP_PLANS="0") == 0


def test_remarks():
    words = ("compile", "matmul", "--target", "sm_90a", "--emit", "ptx", "-o", "code", "--dtype", "f32")
    # As it lies b suits no matrix unit of the chip that reads shared memory.
    config = ("--shape", "m=512,n=512,k=512", "--config", "copy_first=0")
    assert done(*words, *config).err == ""
    said = done(*words, *config, "--remarks").err
    lines = said.splitlines()
    assert lines and len(set(lines)) == len(lines), said
    assert all(re.fullmatch(r"\S+:\d+: remark: .+", line) for line in lines), said
    assert done(*words, *config, env={"SECTILE_REMARKS": "1"}).err == said
    assert done(*words, *config, env={"SECTILE_REMARKS": "0"}).err == ""
    remarks = json.loads(done(*words, *config, "--remarks", "--json").out)["remarks"]
    assert [f"{one['file']}:{one['line']}: remark: {one['text']}" for one in remarks] == lines


def test_nothing_for_the_interpreter():
    refused("compile", "softmax", "--target", "interpreter", "--emit", "ptx", says="nothing to compile for it")


def test_every_nvidia_target():
    ptxas = shutil.which("ptxas")
    for target in NVIDIA:
        for kernel in KERNELS:
            emit(kernel, target, "ptx")
            if not ptxas:
                continue
            report = report_on("code", target, ptxas)
            assert "0 bytes spill stores, 0 bytes spill loads" in report, (target, kernel, report)


def test_defaults_fit_every_width():
    ptxas = shutil.which("ptxas")
    parts = (("attention",), ("attention_backward", "--part", "attention_backward_q"),
             ("attention_backward", "--part", "attention_backward_kv"))  # fmt: skip
    for kernel, *part in parts:
        for dtype in ("f16", "f32"):
            for width in (16, 80, 128, 256):
                words = (*part, "--dtype", dtype, "--shape", f"d={width}", f"dv={width}")
                if width == 80:  # attention_tiles_test has the rows of the other widths on this chip
                    spills = b".vgpr_spill_count: 0"
                    assert spills in emit(kernel, "gfx1100", "amdgcn", *words).replace(b"  ", b""), (kernel, words)
                emit(kernel, "sm_86", "ptx", *words)
                if ptxas:
                    report = report_on("code", "sm_86", ptxas)
                    assert spilt_in(report) == 0, (kernel, words, report)


def test_views_are_buffers():
    for target in AMD:
        for kernel in KERNELS:
            text = emit(kernel, target, "cta")
            assert b"cta.buffer_load" in text and b"cta.buffer_store" in text, (target, kernel)
            assert b"tile.load" not in text and b"tile.store" not in text, (target, kernel)


def test_code_objects():
    objdump = shutil.which("llvm-objdump-22") or "/usr/lib/llvm-22/bin/llvm-objdump"
    for target in AMD:
        for kernel in KERNELS:
            assert emit(kernel, target, "hsaco").startswith(b"\x7fELF")
            text = subprocess.run([objdump, "-d", "code"], capture_output=True, text=True, check=True).stdout
            assert "s_endpgm" in text, (target, kernel)


def test_options_change_the_code():
    plain = emit("attention", "sm_80", "ptx")
    assert plain == emit("attention", "sm_80", "ptx")
    assert plain != emit("attention", "sm_80", "ptx", "--opt", "causal=true")
    assert plain != emit("attention", "sm_80", "ptx", "--config", "n=32")
    assert plain != emit("attention", "sm_80", "ptx", "--dtype", "bf16")
    assert plain != emit("attention", "sm_80", "ptx", "--shape", "d=128")


def test_all_launches():
    start = time.monotonic()
    said = done("compile", "lstm", "--target", "sm_80", "--emit", "ptx", "-o", "lstm.ptx").out
    # Each specialisation is compiled once, not once for each of 512 steps.
    assert time.monotonic() - start < 10
    files = [line.removeprefix("wrote ") for line in said.splitlines()]
    assert "lstm.recurrent_steps.ptx" in files and len(files) > 2, files
    codes = []
    for file in files:
        with open(file) as text:
            codes.append(text.read())
        assert codes[-1].count(".version") == 1, file
    assert len(set(codes)) == len(codes)
    assert not os.path.exists("lstm.ptx")
    words = ("compile", "lstm", "--target", "sm_80", "--emit", "ptx")
    for file, code in zip(files, codes):
        assert f"// {file.removeprefix('lstm.').removesuffix('.ptx')}\n{code}" in done(*words).out, file
    assert done(*words, "--part", "recurrent_begin").out in codes
    refused(*words, "--part", "none", says=("'none'", "recurrent_begin, recurrent_steps"))
    refused("compile", "lstm", "--target", "sm_80", "--emit", "cubin", "--json", says="give -o FILE")


def test_json():
    answer = json.loads(done("compile", "lstm", "--target", "gfx942", "--emit", "llvm", "--json").out)
    assert answer["kernel"] == "lstm" and answer["target"] == "gfx942" and answer["form"] == "llvm", answer
    assert all("define" in part["code"] for part in answer["parts"])
    words = ("compile", "softmax", "--target", "gfx942", "--emit", "hsaco", "-o", "softmax.co", "--json")
    assert json.loads(done(*words).out)["parts"] == [{"file": "softmax.co", "part": "softmax"}]


main(globals())
