# `sectile cache`: what its commands print is what there is, recomputed here; files go out and come back.
import ctypes
import ctypes.util
import json
import os
import re
import subprocess
import sys

from cli import SECTILE, done, main, refused, sectile, write_npy

SECTILE_OPT = os.path.abspath(sys.argv[3])
FAKE_HIP = sys.argv[4]
FAKE_CUDA = sys.argv[2]  # a driver on host memory: kernels for it are compiled to PTX


def cache(folder="cache"):
    return {"SECTILE_CACHE_DIR": os.path.abspath(folder), "SECTILE_CUDA_LIBRARY": FAKE_CUDA, "SECTILE_HIP_LIBRARY": "",
            "SECTILE_TUNING_PATH": ""}  # fmt: skip


def run_add(device="virtual:sm_80", folder="cache", size=256):
    write_npy("x.npy", "<f4", (64,), range(64))
    done("run", "vector_add", "--in", "x=x.npy", "y=x.npy", "--repeat", "1", "--config", f"size={size}", "--device",
         device, env=cache(folder))  # fmt: skip


def listing(folder="cache", *words):
    return json.loads(done("cache", "list", "--json", *words, env=cache(folder)).out)


def read(path, mode="r"):
    with open(path, mode) as file:
        return file.read()


def write(path, data):
    with open(path, "wb" if isinstance(data, bytes) else "w") as file:
        file.write(data)


def measurement(config, median, verdict="good", **more):
    return {"config": config, "verdict": verdict, "message": "" if verdict == "good" else "so it was", "median_us": median,
            "spread_us": 0.5, "runs": 20, "compile_ms": 100, "registers": 64, "spill_bytes": 0, "shared_bytes": 1024,
            "ir": "abc", "compiler": "older", "driver": "", "time": 1700000000, **more}  # fmt: skip


def problem(m, measurements, **more):
    return {"kernel": "matmul", "code": "c0de", "device": "virtual:sm_90a", "dtypes": "f16 f16 f16",
            "shape": [{"name": "M", "extent": m}, {"name": "N", "extent": 64}], "measurements": measurements,
            **more}  # fmt: skip


SPACE = [(m, n, warps) for m in (32, 64, 128) for n in (32, 64) for warps in (4, 8)]


def fill(path="measured.json", folder="cache"):
    """Two shapes of a space of twelve; for M=512 the second takes a quarter more than the best."""
    name = "m={} n={} warps={}".format
    first = [measurement(name(*c), 8 + 2 * i) for i, c in enumerate(SPACE[:9])]
    first += [measurement(name(*SPACE[9]), 1, "wrong"), measurement(name(*SPACE[10]), 0, "failed"),
              measurement(name(*SPACE[11]), 0, "does not fit")]  # fmt: skip
    second = [measurement(name(*c), 100 - i) for i, c in enumerate(SPACE)]
    problems = [problem(512, first), problem(1024, second)]
    write(path, json.dumps({"format": "sectile measurements", "version": 1, "problems": problems}))
    return done("cache", "import", path, env=cache(folder))


def test_an_empty_cache():
    assert listing()["kernels"] == [] and listing()["problems"] == []
    assert "0 kernels" in done("cache", "list", env=cache()).out
    assert "0 kernels" in done("cache", "verify", env=cache()).out
    done("cache", "prune", env=cache())
    done("cache", "clear", "--yes", env=cache())
    refused("cache", "show", "abc", says="no entry 'abc'", env=cache())
    refused("cache", "best", "matmul", says="nothing was measured of 'matmul'", env=cache())


def test_there_must_be_a_folder():
    for word in (["list"], ["show", "x"], ["best", "x"], ["verify"], ["prune"], ["clear"], ["export", "x.json"]):
        refused("cache", *word, says="memory only", env={"SECTILE_CACHE_DIR": ""})
    os.mkdir("open")
    os.chmod("open", 0o777)
    refused("cache", "list", says="others can write to it", env=cache("open"))


def test_words():
    refused("cache", says="list, show, best")
    refused("cache", "lst", says=("'cache lst'", "is it 'list'?"))
    assert "cache prune" in done("help", "cache").out
    assert "--limit MIB" in done("help", "cache", "prune").out
    assert "usage: sectile cache show ENTRY" in done("cache", "show", "--help").out


def test_list_says_what_the_folder_has():
    for size in (256, 512):
        run_add(size=size)
    run_add("cuda:0")
    fill()
    listed = listing()
    files = {name: os.path.getsize(os.path.join("cache", name)) for name in os.listdir("cache")}
    kernels = {name: size for name, size in files.items() if re.fullmatch("[0-9a-f]{32}", name)}
    assert {entry["entry"]: entry["bytes"] for entry in listed["kernels"]} == kernels
    assert sorted(entry["form"] for entry in listed["kernels"]) == ["ptx", "virtual", "virtual"]
    assert [p["shape"][0]["extent"] for p in listed["problems"]] == [512, 1024]
    out = done("cache", "list", env=cache()).out
    for word in ("3 kernels", "columns=256", "columns=512", "2 measured problems", "M=512 N=64", "m=32 n=32 warps=4", "8.00 us",
                 "stale"):  # fmt: skip
        assert word in out, (word, out)
    info = done("info", env=cache()).out
    assert "tuning.sqlite: 2 problems" in info
    assert f"3 kernels, {out.splitlines()[0].split(', ')[-1]}\n" in info, info  # the size as above
    assert listing("cache", "vector_add")["problems"] == [] and len(listing("cache", "vector_add")["kernels"]) == 3
    assert listing("cache", "matmul")["kernels"] == [] and len(listing("cache", "matmul")["problems"]) == 2
    assert [p["stale"] for p in listed["problems"]] == [True, True]
    # What is counted of one kernel is that kernel's.
    assert listed["launches"] == listing("cache", "vector_add")["launches"] == 3 and listing("cache", "matmul")["launches"] == 0
    assert "0 kernels, 0 launches, 0 bytes" in done("cache", "list", "matmul", env=cache()).out


def plain(ir):
    """IR as sectile-opt prints it, without locations."""
    write("ir.mlir", ir)
    return subprocess.run([SECTILE_OPT, "ir.mlir"], capture_output=True, text=True, check=True).stdout


class Hash(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def hash_of(text):
    """XXH3's 128 bits, by the system's own library."""
    function = ctypes.CDLL(ctypes.util.find_library("xxhash")).XXH3_128bits
    function.restype, function.argtypes = Hash, [ctypes.c_char_p, ctypes.c_size_t]
    result = function(text.encode(), len(text.encode()))
    return f"{result.high:016x}{result.low:016x}"


def build_id(library="libsectile"):
    """Of a library that the program loads, by its note."""
    libraries = subprocess.run(["ldd", SECTILE], capture_output=True, text=True, check=True).stdout
    found = re.search(rf"(/\S*{library}\.so\S*)", libraries)
    notes = subprocess.run(["readelf", "-n", found[1] if found else SECTILE], capture_output=True, text=True).stdout
    return re.search(r"Build ID: (\w+)", notes)[1]


def test_show_is_true():
    """Everything that `show` prints, made again: by `compile`, by the configuration, by a recompile."""
    run_add("cuda:0")
    (entry,) = listing()["kernels"]
    shown = json.loads(done("cache", "show", entry["entry"], "--json", env=cache()).out)
    words = ["vector_add", "--target", shown["chip"], "--config", "size=256"]
    code = done("compile", *words, "--emit", "ptx").out
    assert shown["code"] == code and shown["code_bytes"] == len(code)
    assert plain(shown["ir_with_locations"]) == plain(shown["ir"])
    assert "loc(" not in shown["ir"] and "@vector_add" in shown["ir"]
    assert shown["ir_hash"] == hash_of(shown["ir"]) and shown["entry"] == hash_of(shown["key"])
    assert shown["key"] == (
        f"kernel vector_add\ntarget {shown['target']}\noptions {shown['options']}\n"
        f"compiler {shown['compiler']}\n\n{shown['ir']}"
    )
    assert f".entry {shown['symbol']}(" in code
    assert shown["threads"] == 32 * int(re.search(r"warps=(\d+)", shown["options"])[1])
    assert f".reqntid {shown['threads']}" in code
    assert "columns=256" in shown["options"] and shown["chip"] in shown["target"]
    version = done("--version").out.split()
    llvm = f"llvm {version[3].rstrip(')')} build {build_id('libLLVM')} mlir build {build_id('libMLIR')}"
    ours = f"build {build_id()} runtime build {build_id('libsectile_rt')}"
    assert shown["compiler"] == f"sectile {version[1]} {ours} {llvm}"
    for field in set(shown) & set(entry):
        assert shown[field] == entry[field], field
    text = done("cache", "show", entry["entry"][:6], env=cache()).out
    for field in ("kernel", "target", "options", "compiler", "ir", "ir_hash", "code", "symbol"):
        assert shown[field] in text, field
    assert done("cache", "show", entry["entry"], "--code", env=cache()).out == code
    assert done("cache", "show", entry["entry"], "--ir", env=cache()).out == shown["ir"]
    assert "all is well" in done("cache", "verify", "--recompile", env=cache()).out
    refused("cache", "show", entry["entry"], "--ir", "--code", says="only one", env=cache())


def test_show_of_a_code_object_is_true():
    write_npy("x.npy", "<f4", (64,), range(64))
    env = {**cache(), "SECTILE_HIP_LIBRARY": FAKE_HIP}
    # The driver loads no code objects; what was compiled for it is in the cache all the same.
    words = ["--in", "x=x.npy", "--repeat", "1", "--device", "hip:0", "--config", "warps=1"]
    assert "loading kernel" in sectile("run", "softmax", *words, env=env).err
    (entry,) = listing()["kernels"]
    shown = json.loads(done("cache", "show", entry["entry"], "--json", env=env).out)
    words = shown["options"].split(" arguments")[0].split()[2:]
    config = [word for word in words if word.split("=")[0] in ("rows", "block", "warps")]
    assembly = done("compile", "softmax", "--target", shown["chip"], "--config", *config, "--shape", "...=1,N=64", "--emit",
                    "amdgcn").out  # fmt: skip

    def said(field):
        return int(re.search(rf"\.{field}: +(\d+)", assembly)[1])

    assert shown["form"] == "hsaco" and shown["chip"] == "gfx942"
    assert shown["registers"] == said("vgpr_count") > 0
    assert shown["static_shared_bytes"] == said("group_segment_fixed_size")
    assert shown["spill_bytes"] == said("private_segment_fixed_size") == 0
    assert shown["threads"] == said("max_flat_workgroup_size")
    # The disassembly has the instructions of the assembly, in order.
    def opcodes(text):
        return re.findall(r"^\s+((?:[sv]|global|buffer|ds|flat)_\w+?)(?:_e32|_e64)?(?:\s|$)", text, re.M)

    wanted = [opcode for opcode in opcodes(assembly) if opcode != "s_nop"]
    found = [opcode for opcode in opcodes(shown["code"]) if opcode not in ("s_nop", "s_code_end")]
    assert len(wanted) > 20 and found[: len(wanted)] == wanted, (wanted, found)
    assert f"{shown['registers']} of one thread" in done("cache", "show", entry["entry"], env=env).out
    assert "all is well" in done("cache", "verify", "--recompile", env=env).out


def test_show_of_other_forms():
    run_add()
    run_add("interpreter")
    for entry in listing()["kernels"]:
        shown = json.loads(done("cache", "show", entry["entry"], "--json", env=cache()).out)
        assert shown["form"] == entry["form"] and shown["code"] and "vector_add" in shown["ir"]
        assert shown["entry"] == hash_of(shown["key"]) and "symbol" not in shown
        # These two name lines, so that locations are part of the key; of the hash they are not.
        assert "loc(" in shown["ir"] and shown["ir_hash"] == hash_of(plain(shown["ir"]).rstrip("\n") + "\n")
        out = done("cache", "show", entry["entry"], env=cache()).out
        assert "symbol" not in out and out.count("none on the host") == 2, out


def test_show_of_shared_memory_is_true():
    write_npy("a.npy", "<f2", (64, 64))
    config = ["m=32", "n=32", "k=32", "stages=3"]
    done("run", "matmul", "--in", "a=a.npy", "b=a.npy", "--repeat", "1", "--config", *config, "--device", "cuda:0",
         env=cache())  # fmt: skip
    (entry,) = listing()["kernels"]
    shown = json.loads(done("cache", "show", entry["entry"], "--json", env=cache()).out)
    words = ["matmul", "--target", shown["chip"], "--shape", "m=64,n=64,k=64", "--config", *config]
    assert shown["code"] == done("compile", *words, "--emit", "ptx").out
    placed = done("compile", *words, "--emit", "cta").out
    # Three stages of two tiles of f16; what the code declares with a size is static.
    assert shown["shared_bytes"] == int(re.search(r"cta.shared_bytes = (\d+)", placed)[1]) >= 3 * 2 * 2 * 32 * 32
    assert shown["static_shared_bytes"] == 0 and not re.search(r"^\s*\.shared .*\[\d+\]", shown["code"], re.M)


def test_verify_finds_damage():
    run_add()
    fill()
    (entry,) = listing()["kernels"]
    path = os.path.join("cache", entry["entry"])
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        file.write(b"damage")
    result = sectile("cache", "verify", env=cache())
    assert result.status == 1 and entry["entry"] in result.out and "1 faults" in result.out, result.out
    assert listing()["others"][0]["state"].startswith("damaged")
    refused("cache", "show", entry["entry"], says="is damaged", env=cache())
    assert "removed 1 files" in done("cache", "prune", env=cache()).out
    assert sectile("cache", "verify", env=cache()).status == 0


def test_verify_finds_damaged_measurements():
    fill()
    path = "cache/tuning.sqlite"
    data = read(path, "rb")
    assert data.count(b"m=64 n=64 warps=8") >= 1
    write(path, data.replace(b"m=64 n=64 warps=8", b"m=64 n=65 warps=8"))
    result = sectile("cache", "verify", "--json", env=cache())
    assert result.status == 1 and "m=64 n=65 warps=8" in " ".join(json.loads(result.out)["faults"])
    assert len(listing()["problems"][1]["measurements"]) == 11
    done("cache", "prune", env=cache())
    assert sectile("cache", "verify", env=cache()).status == 0


def test_a_damaged_database_is_a_fault():
    fill()
    for command in ("prune", "clear"):
        write("cache/tuning.sqlite", b"no database at all" * 300)
        result = sectile("cache", "verify", env=cache())
        assert result.status == 1 and "tuning.sqlite.bad" in result.out and "1 faults" in result.out, result.out
        assert listing()["others"] == [{"bytes": 5400, "file": "tuning.sqlite.bad", "state": "set aside"}]
        assert "1 files are set aside" in done("cache", "list", env=cache()).out
        assert "removed 1 files (5400 bytes)" in done("cache", command, *(["--yes"] if command == "clear" else []), env=cache()).out
        assert listing()["others"] == [] and "all is well" in done("cache", "verify", env=cache()).out
    # One that is not used, since others could write to it, is a fault as well.
    os.chmod("cache/tuning.sqlite", 0o666)
    result = sectile("cache", "verify", env=cache())
    assert result.status == 1 and "others can write to it" in result.out, result.out


def test_prune_and_clear():
    run_add(size=256)
    run_add(size=512)
    fill()
    assert json.loads(done("cache", "prune", "--json", env=cache()).out) == {"bytes": 0, "files": 0, "measurements": 0}
    assert json.loads(done("cache", "prune", "--unused", "1", "--json", env=cache()).out)["files"] == 0
    assert json.loads(done("cache", "prune", "--stale", "--json", env=cache()).out)["measurements"] == 24
    fill()
    pruned = json.loads(done("cache", "prune", "--limit", "0", "--json", env=cache()).out)
    assert pruned["files"] >= 2 and listing()["kernels"] == [] and len(listing()["problems"]) == 2
    run_add()
    # Nobody is there to be asked.
    refused("cache", "clear", "matmul", says="--yes", env=cache())
    assert len(listing()["kernels"]) == 1 and len(listing()["problems"]) == 2
    done("cache", "clear", "matmul", "--yes", env=cache())
    assert len(listing()["kernels"]) == 1 and listing()["problems"] == []
    fill()
    done("cache", "clear", "vector_add", "--yes", env=cache())
    assert listing()["kernels"] == [] and listing()["launches"] == 0 and len(listing()["problems"]) == 2
    run_add()
    done("cache", "clear", "matmul", "--yes", env=cache())
    fill()
    done("cache", "clear", "--kernels", "--yes", env=cache())
    assert listing()["kernels"] == [] and len(listing()["problems"]) == 2
    run_add()
    done("cache", "clear", "--measurements", "--yes", env=cache())
    assert len(listing()["kernels"]) == 1 and listing()["problems"] == []
    done("cache", "clear", "--yes", env=cache())
    assert listing()["kernels"] == []


def test_clear_asks():
    import pty
    import subprocess
    from cli import SECTILE

    for answer, left in ((b"n\n", 2), (b"y\n", 0)):
        fill()
        ours, theirs = pty.openpty()
        words = [SECTILE, "cache", "clear", "matmul"]
        os.write(ours, answer)
        status = subprocess.run(words, stdin=theirs, stderr=theirs, stdout=subprocess.DEVNULL, timeout=60,
                                env={**os.environ, **cache()}).returncode  # fmt: skip
        said = os.read(ours, 4096).decode()
        os.close(ours)
        os.close(theirs)
        assert "[y/N]" in said and (status == 0) == (left == 0), (said, status)
        assert len(listing()["problems"]) == left


def test_a_read_only_folder_is_read_and_not_said_to_be_changed():
    run_add()
    fill()
    done("cache", "export", "kernels.bin", env=cache())
    before = sorted(os.listdir("cache"))
    root = os.geteuid() == 0  # whom modes do not keep from writing
    if root:
        for name in (".", "cache", *(os.path.join("cache", name) for name in before)):
            os.chown(name, 65534, 65534)
        os.seteuid(65534)
    os.chmod("cache", 0o500)
    try:
        assert "1 kernels" in done("cache", "list", env=cache()).out
        assert "winner" in done("cache", "best", "matmul", env=cache()).out
        done("cache", "verify", env=cache())
        for words in (["clear"], ["clear", "--measurements"], ["prune"], ["import", "measured.json"],
                      ["import", "kernels.bin"]):  # fmt: skip
            refused("cache", *words, says=("/cache' cannot be written", "nothing was changed"), env=cache())
    finally:
        os.chmod("cache", 0o700)
        if root:
            os.seteuid(0)
            for name in (".", "cache", *(os.path.join("cache", name) for name in os.listdir("cache"))):
                os.chown(name, 0, 0)
    assert sorted(os.listdir("cache")) == before
    assert len(listing()["kernels"]) == 1 and len(listing()["problems"]) == 2


def test_measurements_go_out_and_come_back():
    assert "imported 24 measurements" in fill().err
    done("cache", "export", "out.json", env=cache())
    done("cache", "import", "out.json", env=cache("other"))
    done("cache", "export", "again.json", env=cache("other"))
    assert read("out.json") == read("again.json")
    assert "0 measurements" in done("cache", "import", "out.json", env=cache("other")).err
    done("cache", "export", "none.json", "softmax", env=cache())
    assert json.loads(read("none.json"))["problems"] == []
    # as a layer below another folder
    layered = {**cache("third"), "SECTILE_TUNING_PATH": os.path.abspath("out.json")}
    rows = json.loads(done("cache", "list", "--json", env=layered).out)["problems"]
    assert [row["origin"] for row in rows] == [os.path.abspath("out.json")] * 2
    assert "winner" in done("cache", "best", "matmul", env=layered).out


def test_import_refuses_what_is_wrong():
    fill()
    data = json.loads(read("measured.json"))
    data["problems"][1]["measurements"][3]["runs"] = -1
    write("wrong.json", json.dumps(data))
    refused("cache", "import", "wrong.json", says=("wrong.json", "problems[1].measurements[3].runs"), env=cache("new"))
    assert listing("new")["problems"] == []
    write("cut.json", read("measured.json")[:-20])
    refused("cache", "import", "cut.json", says="cut.json", env=cache("new"))
    refused("cache", "import", "none.json", says="none.json", env=cache("new"))
    refused("cache", "export", "none/x.json", says="none/x.json", env=cache("new"))


def test_kernels_go_out_and_come_back():
    run_add()
    done("cache", "export", "kernels.bin", env=cache())
    assert "imported 1 kernels" in done("cache", "import", "kernels.bin", env=cache("other")).err
    assert [e["entry"] for e in listing("other")["kernels"]] == [e["entry"] for e in listing()["kernels"]]
    data = bytearray(read("kernels.bin", "rb"))
    data[len(data) // 2] ^= 1
    write("damaged.bin", bytes(data))
    refused("cache", "import", "damaged.bin", says="damaged.bin", env=cache("third"))
    assert listing("third")["kernels"] == []


def test_best():
    fill()
    rows = json.loads(done("cache", "best", "matmul", "--json", env=cache()).out)
    assert [row["winner"] for row in rows] == ["m=32 n=32 warps=4", "m=128 n=64 warps=8"]
    assert [row["good"] for row in rows] == [9, 12]
    assert abs(rows[0]["margin"] - 0.25) < 1e-9 and rows[1]["margin"] == 0.01123596  # 1/89: JSON has seven digits
    out = done("cache", "best", "matmul", env=cache()).out
    for word in ("matmul on virtual:sm_90a", "8.00 us", "25.0%", "89.00 us", "1.1%", "stale", "1.00x"):
        assert word in out, (word, out)
    assert out.count("warps=") == 2 + 10
    assert done("cache", "best", "matmul", "--top", "3", env=cache()).out.count("warps=") == 2 + 3
    # Those good for both shapes first: of these the one with the least mean.
    table = out[out.index("configuration") :].splitlines()
    assert table[1].startswith("m=32 n=32 warps=4 ") and table[1].split()[-2:] == ["1.00x", "1.12x"]
    refused("cache", "best", "matmul", "--device", "cuda:7", says="nothing was measured", env=cache())
    assert "1024" in done("cache", "best", "matmul", "--dtypes", "f16 f16 f16", env=cache()).out


def why(*words):
    return json.loads(done("cache", "why", *words, "--json", env=cache()).out)


def test_why():
    write_npy("x.npy", "<f4", (64,), range(64))
    write_npy("odd.npy", "<f4", (63,), range(63))
    write_npy("half.npy", "<f2", (64,), range(64))
    base = ["vector_add", "--config", "size=256", "--device", "virtual:sm_80"]

    def files(name):
        return ["--in", f"x={name}", f"y={name}"]

    answer = why(*base, *files("x.npy"))
    assert answer["cached"] is False and answer["nearest"] is None and answer["differences"] == []
    assert "no entry of it" in done("cache", "why", *base, *files("x.npy"), env=cache()).out
    done("run", *base, *files("x.npy"), "--repeat", "1", env=cache())
    (entry,) = listing()["kernels"]
    answer = why(*base, *files("x.npy"))
    assert answer["cached"] is True and answer["nearest"] == entry["entry"]
    assert answer["key"] == json.loads(done("cache", "show", entry["entry"], "--json", env=cache()).out)["key"]
    assert "would not be compiled" in done("cache", "why", *base, *files("x.npy"), env=cache()).out
    for words, part, wanted in (
        (["vector_add", "--config", "size=512", "--device", "virtual:sm_80", *files("x.npy")], "columns", "512"),
        (["vector_add", "--config", "size=256", "warps=8", "--device", "virtual:sm_80", *files("x.npy")], "warps", "8"),
        (["vector_add", "--config", "size=256", "--device", "virtual:sm_90a", *files("x.npy")], "target", "sm_90a"),
        ([*base, *files("odd.npy")], "arguments", "7:16"),
        ([*base, *files("half.npy")], "ir line", "f16"),
    ):
        answer = why(*words)
        assert answer["cached"] is False and answer["nearest"] == entry["entry"]
        found = [d for d in answer["differences"] if d["part"].startswith(part)]
        assert found and wanted in found[0]["wanted"] and found[0]["wanted"] != found[0]["found"], (words, answer)
        out = done("cache", "why", *words, env=cache()).out
        assert "would be compiled" in out and part in out, out
        # What is said of the key is so: a run makes just that entry.
        before = {e["entry"] for e in listing()["kernels"]}
        done("run", *words, "--repeat", "1", env=cache())
        (new,) = {e["entry"] for e in listing()["kernels"]} - before
        assert why(*words)["nearest"] == new and why(*words)["cached"] is True
        os.remove(os.path.join("cache", new))


def test_why_tells_of_versions():
    base = ["vector_add", "--config", "size=256", "--device", "virtual:sm_80"]
    counts = []
    for length in (64, 63, 72, 1):
        write_npy("x.npy", "<f4", (length,), range(length))
        words = [*base, "--in", "x=x.npy", "y=x.npy"]
        done("run", *words, "--repeat", "1", env=cache())
        counts.append(len(why(*words)["versions"]))
    assert counts == [1, 2, 3, 4]
    out = done("cache", "why", *words, env=cache()).out
    assert "4 versions of it that differ in what is known of the arguments" in out, out
    assert sum(line.startswith("  ") for line in out.splitlines()) == 4, out
    # Another configuration has versions of its own.
    assert why("vector_add", "--config", "size=512", *words[3:])["versions"] == []


def test_why_of_extents():
    words = ["matmul", "--shape", "m=64,n=64,k=64", "--dtype", "bf16", "--device", "virtual:sm_80"]
    assert why(*words)["cached"] is False
    write_npy("a.npy", "<u2", (64, 64))
    done("run", "matmul", "--in", "a=a.npy", "b=a.npy", "--dtype", "bf16", "--repeat", "1", "--device", "virtual:sm_80",
         env=cache())  # fmt: skip
    assert why(*words)["cached"] is True
    refused("cache", "why", *words, "--in", "a=a.npy", "b=a.npy", says="--shape", env=cache())
    assert why(*["a=bf16" if word == "bf16" else word for word in words])["cached"] is True  # b is like a
    refused("cache", "why", "matmul", "--dtype", "c=bf16", says="dtype", env=cache())
    refused("cache", "why", "matmul", "--dtype", "a=f7", says="dtype", env=cache())
    refused("cache", "why", "matmull", says="matmul", env=cache())


def test_another_driver_makes_stale():
    done("tune", "vector_add", "--candidates", "2", "--quiet", "--device", "cuda:0", env=cache())
    (row,) = json.loads(done("cache", "best", "vector_add", "--json", env=cache()).out)
    assert row["stale"] is False and row["measurements"][0]["driver"]
    assert "stale" not in done("cache", "list", env=cache()).out
    done("cache", "export", "out.json", env=cache())
    data = json.loads(read("out.json"))
    for one in data["problems"][0]["measurements"]:
        one["driver"] += " before"
        one["time"] += 1
    write("out.json", json.dumps(data))
    done("cache", "import", "out.json", env=cache())
    (row,) = json.loads(done("cache", "best", "vector_add", "--json", env=cache()).out)
    assert row["stale"] is True and row["winner"]
    assert "stale" in done("cache", "list", env=cache()).out
    # `tune` measures it again: then it is not.
    done("tune", "vector_add", "--candidates", "2", "--quiet", "--device", "cuda:0", env=cache())
    (row,) = json.loads(done("cache", "best", "vector_add", "--json", env=cache()).out)
    assert row["stale"] is False
    # On a machine without the device the driver says nothing.
    elsewhere = {**cache(), "SECTILE_CUDA_LIBRARY": ""}
    (row,) = json.loads(done("cache", "best", "vector_add", "--json", env=elsewhere).out)
    assert row["stale"] is False


def test_heat_map():
    from xml.etree import ElementTree

    fill()
    done("cache", "best", "matmul", "--plot", "map.svg", env=cache())
    svg = "{http://www.w3.org/2000/svg}"
    root = ElementTree.parse("map.svg").getroot()
    tips = [element.findtext(svg + "title") for element in root.iter(svg + "rect")]
    tips = [tip for tip in tips if tip]
    assert len(tips) == 24
    assert "m=32 n=32 warps=8: 10.00 us, 1.25 times the best" in tips
    assert "m=128 n=64 warps=8: does not fit: so it was" in tips
    words = [element.text for element in root.iter(svg + "text")]
    for word in ("m=32", "n=64 warps=4", "W", "F", "-", "best: m=32 n=32 warps=4, 8.00 us"):
        assert word in words, (word, words)
    # Cells do not lie on each other.
    places = [(e.get("x"), e.get("y")) for e in root.iter(svg + "rect") if e.findtext(svg + "title")]
    assert len(set(places)) == 24
    done("cache", "best", "matmul", "--plot", "map.html", env=cache())
    html = read("map.html")
    assert html.startswith("<!DOCTYPE html>") and read("map.svg") in html
    refused("cache", "best", "matmul", "--plot", "map.png", says="map.png", env=cache())
    refused("cache", "best", "matmul", "--plot", "none/map.svg", says="none/map.svg", env=cache())


main(globals())
