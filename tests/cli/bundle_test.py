# `sectile bundle`: bundles that a run writes, what the commands say of them, and others made of them.
import json
import os
import re
import sys

from cli import done, main, refused, write_npy

FAKE_CUDA = sys.argv[2]  # a driver on host memory


def made(path, device, size=64, **env):
    """A bundle of vector_add for a device, which a run of it writes when it ends."""
    write_npy("x.npy", "<f4", (size,), range(size))
    done("run", "vector_add", "--in", "x=x.npy", "y=x.npy", "--repeat", "1", "--device", device,
         env={"SECTILE_BUILD": path, "SECTILE_CACHE_DIR": os.path.abspath("cache"), **env})  # fmt: skip
    return path


def listed(path, *words):
    return json.loads(done("bundle", "list", path, *words, "--json").out)


def shown(path):
    return json.loads(done("bundle", "show", path, "--json").out)


def test_what_a_bundle_has():
    made("a.sectile", "virtual:sm_80")
    (variant,) = listed("a.sectile")
    assert variant["kernel"] == "vector_add" and variant["form"] == "virtual", variant
    assert variant["target"] == "virtual:sm_80", variant
    assert variant["arguments"] == 3 and variant["threads"] == 32 * variant["warps"], variant
    assert re.fullmatch(r"rows=\d+ columns=\d+ .*=\d+", variant["config"]), variant
    assert "divisible by 16" in variant["assumes"] and " = 1" in variant["assumes"], variant
    about = shown("a.sectile")
    assert about["kernels"] == ["vector_add"] and about["targets"] == [variant["target"]], about
    assert about["codes"] == about["variants"] == 1 and about["code_bytes"] == variant["code_bytes"], about
    assert set(about["about"]) == {"sectile", "llvm"} and len(about["identity"]) == 32, about
    for text in (done("bundle", "list", "a.sectile").out, done("bundle", "show", "a.sectile").out):
        assert "vector_add" in text and variant["target"] in text, text
    assert about["identity"] in done("bundle", "verify", "a.sectile").out
    assert listed("a.sectile", "vector_add") == [variant]
    refused("bundle", "list", "a.sectile", "matmul", says=("'a.sectile' has no kernel 'matmul'", "bundle list"))


def test_built_without_the_chip():
    # What a run on a chip writes is what `build` writes for it.
    made("run.sectile", "cuda:0", SECTILE_CUDA_LIBRARY=FAKE_CUDA)
    (variant,) = listed("run.sectile")
    done("build", "vector_add", "--shape", "...=64", "--dtype", "f32", "--target", variant["target"], "--exact",
         "-o", "built.sectile")  # fmt: skip
    assert listed("built.sectile") == [variant], (listed("built.sectile"), variant)
    done("bundle", "merge", "both.sectile", "run.sectile", "built.sectile")
    assert shown("both.sectile")["codes"] == shown("both.sectile")["variants"] == 1
    with open("calls.txt", "w") as file:
        file.write("# two calls\nvector_add ...=64 dtype f32\nvector_add ...=64 dtype f16 config size=256\n")
    done("build", "--file", "calls.txt", "--target", "sm_80,gfx942", "--exact", "-o", "two.sectile")
    forms = [(v["target"], v["form"], v["configuration"][1]) for v in listed("two.sectile")]
    assert sorted(set(v[:2] for v in forms)) == [("gfx942", "hsaco"), ("sm_80", "ptx")] and len(forms) == 4, forms
    refused("build", "vector_add", "--target", "sm_80", says="-o FILE")
    refused("build", "vector_add", "-o", "x", says="--target is missing")
    refused("build", "vector_add", "--target", "sm_1", "-o", "x", says="sm_1")
    refused("build", "--target", "sm_80", "-o", "x", says=("KERNEL", "SECTILE_BUNDLE"))
    refused("build", "vector_add", "--file", "calls.txt", "--target", "sm_80", "-o", "x", says="KERNEL")


def test_code_for_other_arguments():
    # What the call's arguments fulfil, what aligned ones do, nothing; other extents of the call may need no other code.
    words = ("build", "layer_norm", "--shape", "...=64,N=1000", "--dtype", "f16", "--target", "sm_80")
    done(*words, "-o", "all.sectile")
    done(*words, "--exact", "-o", "exact.sectile")
    assumed = [variant["assumes"] for variant in listed("all.sectile")]
    assert len(assumed) == 3 and assumed[2] == "nothing" and "divisible by 8" in assumed[0], assumed
    assert "divisible by 16" in assumed[1] and "divisible by 8" not in assumed[1], assumed
    assert [variant["assumes"] for variant in listed("exact.sectile")] == assumed[:1]
    # A virtual device is a target, too.
    done("build", "vector_add", "--target", "virtual:sm_80,sm_80", "-o", "virtual.sectile")
    targets = sorted({(variant["target"].split(" on ")[0], variant["form"]) for variant in listed("virtual.sectile")})
    assert targets == [("sm_80", "ptx"), ("virtual:sm_80", "virtual")], targets
    refused("build", "vector_add", "--target", "virtual:sm_1", "-o", "x", says=("virtual:sm_1", "sm_80"))


def test_compiled_once():
    # What was compiled for a bundle, the next one takes from the cache; the order of codes follows from the calls alone.
    words = ("build", "matmul", "--shape", "M=64,N=64,K=64", "--dtype", "f16", "--target", "sm_80,virtual:sm_80,gfx942")
    notes = []
    for name in ("first", "second"):
        done(*words, "-o", name + ".sectile", env={"SECTILE_CACHE_DIR": os.path.abspath("once"), "SECTILE_TRACE": name + ".json"})
        with open(name + ".json") as file:
            events = [event["name"] for event in json.load(file) if event.get("cat") == "cache"]
        notes.append({name: events.count(name) for name in set(events)})
    codes = len(listed("first.sectile"))
    assert codes >= 6 and notes[0].get("miss", 0) >= codes / 3 and "miss" not in notes[1], (codes, notes)
    with open("first.sectile", "rb") as one, open("second.sectile", "rb") as other:
        assert one.read() == other.read()


def test_machine_code():
    # A ptxas that makes something of PTX.
    with open("ptxas", "w") as file:
        file.write('#!/bin/sh\n[ "$1" = --version ] && echo "Cuda compilation tools, release 13.0, V13.0.88" && exit\n'
                   'while [ "$1" != -o ]; do shift; done; echo machine code > "$2"\n')  # fmt: skip
    os.chmod("ptxas", 0o755)
    words = ("build", "vector_add", "--target", "sm_80,gfx942", "--exact", "--cubin", "-o", "cubin.sectile")
    done(*words, env={"SECTILE_PTXAS": os.path.abspath("ptxas")})
    forms = [(variant["target"], variant["form"]) for variant in listed("cubin.sectile")]
    assert forms == [("sm_80", "ptx"), ("sm_80", "cubin"), ("gfx942", "hsaco")], forms
    refused(*words, env={"SECTILE_PTXAS": ""}, says=("needs ptxas", "SECTILE_PTXAS"))


def test_compressed_code():
    words = ("build", "matmul", "--shape", "M=64,N=64,K=64", "--dtype", "f16", "--target", "sm_80,sm_90a")
    done(*words, "-o", "plain.sectile")
    done(*words, "--compress", "-o", "small.sectile")
    assert os.path.getsize("small.sectile") < os.path.getsize("plain.sectile") / 2
    assert listed("small.sectile") == listed("plain.sectile")
    # It stays so.
    done("bundle", "merge", "merged.sectile", "small.sectile", "small.sectile")
    assert shown("merged.sectile")["identity"] == shown("small.sectile")["identity"]
    done("bundle", "strip", "small.sectile", "--target", "sm_80", "-o", "less.sectile")
    assert os.path.getsize("less.sectile") < os.path.getsize("small.sectile")
    assert listed("less.sectile") == [v for v in listed("plain.sectile") if v["target"] == "sm_80"]


def test_recorded_calls():
    call = {"kernel": "softmax", "tensors": {"x": {"dtype": "f32", "shape": [4, 100], "strides": [128, 1]},
                                             "y": {"dtype": "f32", "shape": [4, 100]}}, "options": {}}  # fmt: skip

    def write(*calls):
        with open("calls.json", "w") as file:
            json.dump(calls, file)
        return ("build", "--from", "calls.json", "--target", "sm_80", "--exact", "-o", "from.sectile")

    done(*write(call, call))
    (variant,) = listed("from.sectile")
    # Rows of 100 elements that are 128 apart; y is allocated, so its rows are 100 apart.
    done("build", "softmax", "--shape", "...=4,N=100", "--dtype", "f32", "--target", "sm_80", "--exact", "-o", "dense.sectile")
    assert variant["kernel"] == "softmax" and variant["assumes"] != listed("dense.sectile")[0]["assumes"], variant
    wrong = "call 1: is not what SECTILE_RECORD writes"
    for broken, says in (
        ({**call, "kernel": "softmaxx"}, ("call 2", "softmaxx")),
        ({**call, "tensors": {"z": call["tensors"]["x"]}}, "there is no argument 'z'"),
        ({**call, "options": {"nothing": "1"}}, "nothing"),
    ):
        refused(*write(call, broken), says=says)
    for broken in (1, {}, {**call, "options": []}, {**call, "options": {"a": 1}}, {**call, "tensors": {"x": {"dtype": "f31"}}},
                   {**call, "tensors": {"x": {"dtype": "f32", "shape": [1.5]}}},
                   {**call, "tensors": {"x": {"dtype": "f32", "shape": [1, 2], "strides": [1]}}}):  # fmt: skip
        refused(*write(broken), says=wrong)
    refused(*write(), says="has no calls")
    refused(*write(call), "softmax", says="takes one of KERNEL")


def test_choices():
    words = ("build", "matmul", "--shape", "M=64,N=64,K=96", "--dtype", "f16", "--exact")
    done(*words, "--target", "sm_80,gfx942", "-o", "own.sectile")
    assert (shown("own.sectile")["choices"], shown("own.sectile")["tuned_choices"]) == (2, 0)
    # A configuration that is given is not a choice.
    done(*words, "--target", "sm_80", "--config", "m=32", "n=32", "k=16", "-o", "given.sectile")
    assert shown("given.sectile")["choices"] == 0
    cache = {"SECTILE_CACHE_DIR": os.path.abspath("cache")}
    done("tune", "matmul", *words[2:6], "--device", "virtual:sm_80", "--candidates", "6", "--quiet", env=cache)
    done("cache", "export", "measured.json", env=cache)
    for measurements in ("measured.json", "sm_80=measured.json", "cache/tuning.sqlite"):
        done(*words, "--target", "sm_80,gfx942", "--tuning", measurements, "-o", "tuned.sectile")
        assert (shown("tuned.sectile")["choices"], shown("tuned.sectile")["tuned_choices"]) == (2, 1), measurements
        configurations = {v["target"]: v["configuration"] for v in listed("tuned.sectile")}
        own = {v["target"]: v["configuration"] for v in listed("own.sectile")}
        assert configurations["gfx942"] == own["gfx942"] and configurations["sm_80"] != own["sm_80"], measurements
    # Choices go with their targets.
    done("bundle", "strip", "tuned.sectile", "--target", "gfx942", "-o", "amd.sectile")
    assert (shown("amd.sectile")["choices"], shown("amd.sectile")["tuned_choices"]) == (1, 0)
    done("bundle", "merge", "both.sectile", "amd.sectile", "tuned.sectile")
    assert (shown("both.sectile")["choices"], shown("both.sectile")["tuned_choices"]) == (2, 1)
    with open("measured.json") as file:
        measured = json.load(file)
    measured["problems"] = [dict(problem, device=name) for problem in measured["problems"] for name in ("Fake A", "Fake B")]
    with open("several.json", "w") as file:
        json.dump(measured, file)
    refused(*words, "--target", "sm_80", "--tuning", "several.json", "-o", "x", says=("several products", "Fake A, Fake B"))
    done(*words, "--target", "sm_80", "--tuning", "several.json", "--tuned-on", "Fake B", "-o", "b.sectile")
    assert shown("b.sectile")["tuned_choices"] == 1
    with open("none.json", "w") as file:
        json.dump(dict(measured, problems=[]), file)
    for file, says in (("none.json", "there are none"), ("nowhere.json", "cannot be read"), ("calls.txt", "Invalid JSON"),
                       ("gfx942=measured.json", "'gfx942' is not among the targets")):  # fmt: skip
        with open("calls.txt", "w") as out:
            out.write("no JSON")
        refused(*words, "--target", "sm_80", "--tuning", file, "-o", "x", says=says)


def test_two_become_one_and_one_again():
    made("a.sectile", "virtual:sm_80")
    made("b.sectile", "virtual:gfx942")
    done("bundle", "merge", "ab.sectile", "a.sectile", "b.sectile")
    assert listed("ab.sectile") == listed("a.sectile") + listed("b.sectile")
    # What is there already is not added again.
    again = json.loads(done("bundle", "merge", "aab.sectile", "ab.sectile", "a.sectile", "--json").out)
    assert again["variants"] == again["codes"] == 2 and again["identity"] == shown("ab.sectile")["identity"], again
    (target,) = shown("b.sectile")["targets"]
    done("bundle", "strip", "ab.sectile", "--target", target, "-o", "only.sectile")
    assert shown("only.sectile")["identity"] == shown("b.sectile")["identity"]
    done("bundle", "strip", "ab.sectile", "--target", target)  # over itself
    assert listed("ab.sectile") == listed("b.sectile")


def test_refusals():
    made("a.sectile", "virtual:sm_80")
    with open("a.sectile", "rb") as file:
        whole = file.read()
    for name, data in (("short", whole[:-1]), ("changed", whole[:-1] + bytes([whole[-1] ^ 1])), ("empty", b"")):
        with open(name, "wb") as file:
            file.write(data)
        os.chmod(name, 0o644)
        for words in (("verify", name), ("show", name), ("list", name), ("merge", "out", "a.sectile", name)):
            refused("bundle", *words, says=f"'{name}'" if data else name)
        assert not os.path.exists("out")
    refused("bundle", "verify", "none.sectile", says="none.sectile")
    refused("bundle", "strip", "a.sectile", says="--target")
    refused("bundle", "strip", "a.sectile", "--target", "sm_75", says=("no code for 'sm_75'", "virtual:sm_80"))
    refused("bundle", "merge", "nowhere/out", "a.sectile", "a.sectile", says="nowhere")
    with open("a.sectile", "rb") as file:
        assert file.read() == whole


main(globals())
