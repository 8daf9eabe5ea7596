# What `ptxas` says of the library's kernels with dots on sm_90a, and what their main loops hold.
# assembly_test.py SECTILE products, forward, backward or other: one share of the kernels, for ctest to run side by side.
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from cli import done, main
from ptxas import report_on, spilt_in

SHARE = sys.argv[2]
WIDTHS = (64, 128, 256)  # of heads
# Extents of kernels over time: thousands of launches for the default ones.
SMALL = {"rnn": "T=2,B=16,I=64,H=64", "gru": "T=2,B=16,I=64,H=64", "lstm": "T=2,B=16,I=64,H=64"}

# Extents of kernels whose rows have widths of their own.
SHAPES = {
    "latent_decode": ("S=4,T=4,Hq=16", "S=4,T=4,Hq=128,page=16,max=256", "S=4,T=4,Hq=128"),
    "latent_sparse": ("S=4,Hq=16", "S=4,Hq=128"),
}

# Kernels that spill, and the most bytes that a thread may store. A spill here is known, not welcome. Most are gradients
# of keys at width 128: two sums of 64 registers each and the scores leave too few of 255 registers for indices.
KNOWN_SPILLS = {
    "moe_up f16": 48,
    "moe_up bf16": 48,
    "moe_up f8e4m3": 24,
    "moe_up persistent=1 f16": 48,
    "moe_up persistent=1 bias f16": 72,
    "scaled_matmul f8e4m3": 16,
    "scaled_matmul trans_b=false f8e4m3": 16,
    "scaled_matmul persistent=1 f8e4m3": 16,
    "scaled_matmul persistent=1 bias f8e4m3": 20,
    "attention D=256,Dv=256 persistent=1 bias f16": 180,  # not the default
    "attention_varlen D=256,Dv=256 persistent=1 bias f16": 176,  # nor here
    "rope_attention attention D=256,Dv=256 persistent=1 bias f16": 180,  # nor here
    "exposb_attention attention D=256,Dv=256 persistent=1 bias f16": 236,  # nor here
    "rerope_attention attention D=256,Dv=256 persistent=1 bias f16": 20,  # nor here
    "attention_backward attention_backward_kv D=128,Dv=128 causal=true f16": 16,
    "attention_backward attention_backward_kv Sq=4096,Sk=4096,D=128,Dv=128 unordered=true f16": 40,
    "attention_backward attention_backward_kv Sq=4096,Sk=4096,D=128,Dv=128 unordered=true causal=true f16": 48,
    "rope_attention_backward attention_backward_kv D=128,Dv=128 causal=true f16": 16,
    "stick_breaking_attention_backward stick_breaking_attention_backward_keys D=128 f16": 424,
    "kda_backward delta_rule_gradients f16": 72,
    "rwkv7_backward delta_rule_column_gradients f16": 16,
    "rwkv7_backward delta_rule_gradients f16": 64,
}

# Kernels of which the assembler puts a wait in: where a dot's result goes around the loop, once in four blocks of K.
KNOWN_WAITS = {
    "scaled_matmul f8e4m3",
    "scaled_matmul trans_b=false f8e4m3",
    "scaled_matmul persistent=1 f8e4m3",
    "scaled_matmul persistent=1 bias f8e4m3",
}


def assembler():
    """The path of ptxas, and its release as (13, 0); nothing where there is none."""
    path = os.environ.get("SECTILE_PTXAS") or shutil.which("ptxas")
    if not path:
        return None
    text = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    return path, tuple(map(int, re.search(r"release (\d+)\.(\d+)", text).groups()))


ASSEMBLER = assembler()
# The release that KNOWN_SPILLS was written down with. Another one allocates registers differently.
SPILLS_OF = (13, 0)


def share_of(kernel):
    if "matmul" in kernel or "conv" in kernel:
        return "products"
    if "attention" not in kernel and "paged" not in kernel:
        return "other"
    return "backward" if "backward" in kernel else "forward"


def kernels():
    names = [kernel["name"] for kernel in json.loads(done("list", "--json").out)]
    return [name for name in names if share_of(name) == SHARE]


def parts(kernel):
    """Of a kernel that launches several, as words of `sectile compile`."""
    small = SMALL.get(kernel.removesuffix("_backward"))
    shape = ("--shape", small) if small else ()
    result = done("compile", kernel, "--target", "sm_90a", "--emit", "tile", "--json", *shape)
    names = {part["part"].split(".")[0] for part in json.loads(result.out)["parts"]}
    return [("--part", name) for name in sorted(names)] if len(names) > 1 else [()]


def cases(kernel):
    """The words of `sectile compile` for every part, option, width and dtype."""
    text = done("list", kernel).out
    argument = next(line for line in text.splitlines() if re.match(r"  \w+ +in ", line))
    dtypes = [d for d in ("f16", "bf16", "f8e4m3") if re.search(rf"\b{d}\b", argument)]
    # Both half types have the same tiles and instructions: bf16 once for each kernel is enough.
    dtype = ("--dtype", dtypes[0]) if dtypes else ()
    others = ["bf16"] if "bf16" in dtypes[1:] else []
    # Those of fp8 have instructions and tiles of their own where both operands lie along K.
    along_k = ["f8e4m3"] if "f8e4m3" in dtypes[1:] else []
    options = [()]
    for option in ("trans_a", "trans_b", "causal"):
        if found := re.search(rf"^  {option} +true, false +default (\w+)", text, re.M):
            other = "false" if found[1] == "true" else "true"
            options = [(*before, *more) for before in options for more in ((), ("--opt", f"{option}={other}"))]
    axes = re.findall(r"\w+", " ".join(re.findall(r"\[([^\]]*)\]", text)))
    widths = [axis for axis in ("D", "Dv") if axis in axes]
    shapes = [("--shape", ",".join(f"{axis}={width}" for axis in widths)) for width in WIDTHS] if widths else [()]
    if small := SMALL.get(kernel.removesuffix("_backward")):
        shapes = [("--shape", small)]
    if own := SHAPES.get(kernel):
        shapes = [("--shape", shape) for shape in own]
    for part in parts(kernel):
        for shape in shapes:
            for option in options:
                yield kernel, *part, *shape, *option, *dtype
        for other in others:
            yield kernel, *part, *shapes[-1], *options[0], "--dtype", other
        if re.search(r"^  persistent +", text, re.M):
            yield kernel, *part, *shapes[-1], "--config", "persistent=1", *dtype
            if re.search(r"^  bias +in, optional", text, re.M):
                yield kernel, *part, *shapes[-1], "--config", "persistent=1", "--with", "bias", *dtype
        if re.search(r"^  schedule +", text, re.M):
            yield kernel, *part, "--opt", "schedule=stream_k", "--with", "bias", *dtype
        for other in along_k:
            yield kernel, *part, *shapes[-1], "--dtype", other
        # Long rows and short ones have tiles of their own.
        if part == ("--part", "attention_backward_kv") and kernel == "attention_backward":
            for width in (64, 128):
                for option in options:
                    long = f"Sq=4096,Sk=4096,D={width},Dv={width}"
                    yield kernel, *part, "--shape", long, "--opt", "unordered=true", *option, *dtype
        if kernel == "attention":
            for lengths, width in ((200, 128), (200, 256), (512, 80), (256, 96), (4096, 64)):
                yield kernel, *part, "--shape", f"B=64,Sq={lengths},Sk={lengths},D={width},Dv={width}", *dtype


def code_of(words, form, file):
    done("compile", *words, "--target", "sm_90a", "--emit", form, "-o", file)
    # Of several launches that of the kernel's own name, which others prepare operands for.
    own = file.replace(f".{form}", f".{words[0]}.{form}")
    if os.path.exists(own):
        os.replace(own, file)
    with open(file) as text:
        return text.read()


def traced(number_and_words):
    number, words = number_and_words
    return code_of(words, "tile", f"{number}.tile")


def assembled(number_and_words):
    """Whether the dots are products of matrices, and if so the assembler's report."""
    number, words = number_and_words
    file = f"{number}.ptx"
    ptx = code_of(words, "ptx", file)
    if "mma.sync" not in ptx and "wgmma.mma_async" not in ptx:
        return None
    return report_on(file, "sm_90a", ASSEMBLER[0])


def test_kernels_assemble_without_spills_or_serialization():
    if not ASSEMBLER:
        print("skipped: there is no ptxas on the PATH")
        return
    wrong, spilled, dots = [], set(), 0
    everything = bool(os.environ.get("SECTILE_TEST_ALL"))
    with ThreadPoolExecutor(2) as pool:
        all_cases = [words for words_of_one in pool.map(lambda k: list(cases(k)), kernels()) for words in words_of_one]
        first = {words[0]: words for words in reversed(all_cases)}
        # The first of each kernel, and of the others a fourth.
        all_cases = [words for number, words in enumerate(all_cases)
                     if everything or number % 4 == 0 or words == first[words[0]]]
        # Many are the same program: kernels have launches of others, and options that change some of their launches.
        programs = {}
        for words, program in zip(all_cases, pool.map(traced, enumerate(all_cases))):
            if "tile.dot" in program:
                programs.setdefault(program, []).append(words)
        reports = pool.map(assembled, enumerate(same[0] for same in programs.values()))
        for words, report in (
            (words, report) for same, report in zip(programs.values(), reports) for words in same
        ):
            if report is None:
                continue
            dots += 1
            key = " ".join(word for word in words if not word.startswith("--"))
            stores = spilt_in(report)
            if stores:
                spilled.add(key)
            if stores > KNOWN_SPILLS.get(key, 0):
                wrong.append(f"{key}: {stores} bytes spilled, {KNOWN_SPILLS.get(key, 0)} known")
            # C7508 to C7520 are why products are serialized, or where waits were put in.
            wrong += [
                f"{key}: {line}"
                for line in report.splitlines()
                if re.search(r"\bC75\d\d\b|wgmma|Performance Loss", line)
                and not ("C7517" in line and key in KNOWN_WAITS)
            ]
    assert dots > 5, dots
    known = {key for key in KNOWN_SPILLS if share_of(key.split()[0]) == SHARE}
    if ASSEMBLER[1] == SPILLS_OF and everything:
        wrong += [f"{key}: spills no more: take it off the list" for key in sorted(known - spilled)]
    assert not wrong, "\n" + "\n".join(wrong)
    print(f"{dots} kernels with dots")


def tile(config):
    return [word for field in config.split() for word in ("--config", field)]


# Instructions of one iteration of the main loop.
COUNTED = {
    "wgmma": r"wgmma\.mma_async",
    "wgmma fence": r"wgmma\.fence",
    "wgmma commit": r"wgmma\.commit_group",
    "wgmma wait": r"wgmma\.wait_group",
    "barrier": r"bar(rier)?\.sync|barrier\.cta",
    "proxy fence": r"fence\.proxy\.async",
    "copy": r"cp\.async\.c[ag]\.shared",
    "engine copy": r"cp\.async\.bulk\.tensor",
    "mbarrier wait": r"mbarrier\.try_wait",
    "copy commit": r"cp\.async\.commit_group",
    "copy wait": r"cp\.async\.wait_(group|all)",
    "shared load or store": r"(ld|st)\.shared|ldmatrix|stmatrix",
}
# Products: a group of the steps of one tile, and one in flight while the next begins. Attention: scores, waited for at
# once, and sums of values; each behind its copies' wait and a barrier. Where dots run beside softmax, the values are those
# of the step before.
#   words of `sectile compile`; then one number for each of COUNTED
PLANNED = {
    "matmul 128x128x32, 4 warps": (
        ("matmul", *tile("m=128 n=128 k=32 warps=4 stages=3 persistent=0 cluster=1")),
        *(4, 1, 1, 1, 1, 0, 0, 3, 1, 0, 0, 0),
    ),
    "matmul 128x256x64, 8 warps": (
        ("matmul", *tile("m=128 n=256 k=64 warps=8 stages=3 persistent=0 cluster=1")),
        *(4, 1, 1, 1, 1, 0, 0, 5, 1, 0, 0, 0),
    ),
    # Sums of fp8 are promoted, 128 columns at once: none is in flight.
    "matmul 128x256x128 of fp8 along K, 8 warps": (
        ("matmul", "--opt", "trans_b=true", "--dtype", "f8e4m3", *tile("m=128 n=256 k=128 warps=8 stages=3")),
        *(8, 2, 2, 2, 1, 0, 0, 2, 1, 0, 0, 0),
    ),
    # Another warp has the copies made: nobody meets, and each warp hands slots back by itself.
    "matmul 128x256x64, 8 warps, persistent": (
        ("matmul", *tile("m=128 n=256 k=64 warps=8 stages=3 persistent=1")),
        *(4, 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0),
    ),
    "matmul 128x256x64, 8 warps, streamed, with an epilogue": (
        (
            "matmul",
            *("--opt", "schedule=stream_k", "--with", "bias", "--opt", "activation=gelu"),
            *tile("m=128 n=256 k=64 warps=8 stages=3 persistent=1"),
        ),
        *(4, 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0),
    ),
    # Four blocks of K at once. Its warpgroups start their dots in turn: each waits at a barrier for the other.
    "scaled_matmul of fp8 along K, 8 warps, persistent": (
        (
            "scaled_matmul",
            "--opt",
            "trans_b=true",
            "--dtype",
            "f8e4m3",
            *tile("m=128 n=128 k=128 warps=8 stages=4 persistent=1"),
        ),
        *(16, 4, 4, 4, 4, 0, 0, 0, 4, 0, 0, 0),
    ),
    "attention of width 64": (
        ("attention", "--shape", "D=64,Dv=64", *tile("m=64 n=64 warps=4 stages=2 overlap=0 persistent=0")),
        *(8, 2, 2, 2, 1, 1, 0, 2, 2, 0, 0, 0),
    ),
    "attention of width 128": (
        ("attention", "--shape", "D=128,Dv=128", *tile("m=64 n=64 warps=4 stages=2 overlap=0 persistent=0")),
        *(12, 2, 2, 2, 1, 1, 0, 4, 2, 0, 0, 0),
    ),
    # One block of these fills a multiprocessor: its dots run beside softmax.
    "attention of width 128, all warps copying": (
        ("attention", "--shape", "D=128,Dv=128", *tile("m=128 n=128 warps=8 stages=2 overlap=0 persistent=0")),
        *(16, 2, 2, 2, 1, 1, 0, 4, 2, 0, 0, 0),
    ),
    # Its warpgroups start both dots in turn, at the one barrier; others copy. Keys and values of the step before are waited
    # for apart.
    "attention of width 128, a partition copying": (
        ("attention", "--shape", "D=128,Dv=128", *tile("m=128 n=128 warps=8 stages=2 overlap=1 persistent=0")),
        *(16, 2, 2, 2, 1, 0, 0, 0, 2, 0, 0, 0),
    ),
    # The same main loop in a loop over blocks, whose queries others copy, too.
    "attention of width 128, persistent": (
        ("attention", "--shape", "D=128,Dv=128", *tile("m=128 n=128 warps=8 stages=2 overlap=1 persistent=1")),
        *(16, 2, 2, 2, 1, 0, 0, 0, 2, 0, 0, 0),
    ),
    # Two statistics of 64 rows are read from shared memory, two numbers at once, and fenced before the engine overwrites them.
    "gradients of keys and values of width 128, beside arithmetic": (
        (
            *("attention_backward", "--part", "attention_backward_kv", "--shape", "D=128,Dv=128,Sq=4096"),
            *tile("kv_m=64 kv_n=128 kv_warps=8 kv_stages=3 kv_overlap=1"),
        ),
        *(24, 4, 4, 4, 0, 1, 0, 0, 1, 0, 0, 16),
    ),
    "gradients of queries of width 128, beside arithmetic": (
        (
            *("attention_backward", "--part", "attention_backward_q", "--shape", "D=128,Dv=128,Sq=4096"),
            *tile("q_m=128 q_n=128 q_warps=8 q_stages=2 q_overlap=1"),
        ),
        *(24, 3, 3, 3, 1, 0, 0, 0, 1, 0, 0, 0),
    ),
}


def main_loop(ptx):
    """The lines of the innermost loop with the most dots, wherever its blocks stand."""
    blocks, name = {"entry": []}, "entry"
    for line in ptx.splitlines():
        if label := re.match(r"(\$L__BB\w+):", line):
            name = label[1]
            blocks[name] = []
        blocks[name].append(line)
    names = list(blocks)
    before = {name: set() for name in names}
    for name, following in zip(names, [*names[1:], None]):
        for line in blocks[name]:
            for target in re.findall(r"\bbra(?:\.uni)?\s+(\$L__BB\w+);", line):
                before[target].add(name)
        if following and not re.match(r"\s*(bra(\.uni)?|ret)\b", blocks[name][-1]):
            before[following].add(name)

    def reaching(name, without):
        """The blocks from which there is a way to this one that does not pass another."""
        found, todo = set(), [name]
        while todo:
            if (name := todo.pop()) != without and name not in found:
                found.add(name)
                todo += before[name]
        return found

    loops = []
    for header in names:
        for latch in before[header]:
            body = reaching(latch, header)
            if "entry" not in body:
                loops.append(body | {header})

    def dots(loop):
        return sum("wgmma.mma_async" in line for name in loop for line in blocks[name])

    innermost = [loop for loop in loops if not any(other < loop and dots(other) for other in loops)]
    found = max(innermost, key=dots)
    return [line for name in names if name in found for line in blocks[name]]


def test_main_loops_hold_what_is_planned():
    wrong = []
    for name, (words, *planned) in PLANNED.items():
        if share_of(words[0]) != SHARE:
            continue
        dtype = () if "--dtype" in words else ("--dtype", "f16")
        loop = main_loop(code_of((*words, *dtype), "ptx", "loop.ptx"))
        found = [sum(bool(re.search(rf"\b({form})", line)) for line in loop) for form in COUNTED.values()]
        wrong += [
            f"{name}: {many} of {what}, planned {plan}"
            for what, many, plan in zip(COUNTED, found, planned)
            if many != plan
        ]
    assert not wrong, "\n" + "\n".join(wrong)


main(globals())
