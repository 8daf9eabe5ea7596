# Whether eager PyTorch computes what Sectile does: on the GPU, or on a virtual device where there is none.
import os
import subprocess
import tempfile

import numpy
import torch

import compare
import in_pytorch
from case import Case, NoPeer

# What NumPy has no name for is stored as integers of its size.
STORED = {torch.bfloat16: torch.uint16, torch.float8_e4m3fn: torch.uint8, torch.float8_e5m2: torch.uint8}


class Different(Exception):
    """They do not agree."""


def run(program, kernel, inputs, types, options, outputs, folder):
    words = [program, "run", kernel, "--device", "cuda:0" if torch.cuda.is_available() else "virtual:sm_90a", "--in"]
    for name, value in inputs.items():
        numpy.save(os.path.join(folder, name), value.cpu().view(STORED.get(value.dtype, value.dtype)).numpy())
        words.append(f"{name}={folder}/{name}.npy")
    words += ["--dtype", *(f"{name}={types[name]}" for name in inputs if inputs[name].dtype in STORED)] if any(
        value.dtype in STORED for value in inputs.values()) else []  # fmt: skip
    words += ["--opt", *(f"{key}={value}" for key, value in options.items())] if options else []
    words += ["--out", *(f"{name}={folder}/{name}.npy" for name in outputs)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise Different(f"sectile run {kernel}: {done.stderr.strip() or done.stdout.strip()}")
    return {name: torch.from_numpy(numpy.load(os.path.join(folder, f"{name}.npy"))) for name in outputs}


def check(row, program):
    """Throws where the two differ. What a backward kernel keeps of the forward one comes from that."""
    c = Case(row)
    if c.kernel.startswith("dropout"):
        return ["random"]
    call, names = in_pytorch.work(c)
    results = call()
    results = dict(zip(names, results if isinstance(results, tuple) else (results,)))
    types = {a["name"]: a["dtype"] for a in row["arguments"]}
    inputs = dict(Case(row).inputs)
    with tempfile.TemporaryDirectory() as folder:
        kept = [name for name in ("o", "lse", "y", "reserve", "mean", "rstd") if name in inputs]
        forward = c.kernel.removesuffix("_backward")
        if c.is_backward() and kept and not c.kernel.startswith(("softmax", "log_softmax")):
            slopes = ("do", "dy", "dloss", "drem")
            before = {name: value for name, value in inputs.items() if name not in kept and name not in slopes}
            options = dict(c.options)
            if forward == "group_norm":
                options["groups"] = str(inputs["mean"].shape[-1])
                before.setdefault("b", torch.zeros_like(before["w"]))
            inputs.update(run(program, forward, before, types, options, kept, folder))
        expected = run(program, c.kernel, inputs, types, c.options, list(results), folder)
    for name, value in expected.items():
        if (dtype := results[name].dtype) in STORED:
            value = value.view(dtype)
        expected[name] = value.to(results[name].device)
    if what := compare.problem(c, results, expected):
        raise Different(what)
    return []
