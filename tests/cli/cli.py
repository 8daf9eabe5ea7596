# What the tests of the command line share: running `sectile`, and .npy files without NumPy.
import math
import os
import random
import struct
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from script import main  # for the tests, with the rest

SECTILE = os.path.abspath(sys.argv[1])
# Code, its registers and its room are asked for as they are by default, also where the rest is tested without plans.
os.environ.pop("SECTILE_LOOP_PLANS", None)
CHECKED = set()  # kernels that `run --check` found right
FORMATS = {"<f4": "f", "<f8": "d", "<f2": "e", "<i4": "i", "<i8": "q", "<u2": "H", "|u1": "B", "|i1": "b", "|b1": "?"}


class Result:
    def __init__(self, completed):
        self.status, self.out, self.err = completed.returncode, completed.stdout, completed.stderr


def sectile(*words, env=None):
    """Runs it; a crash (a signal, a sanitizer's report) is a failure whatever a test expects."""
    completed = subprocess.run(
        [SECTILE, *map(str, words)], capture_output=True, text=True, env={**os.environ, **(env or {})}
    )
    assert completed.returncode in (0, 1, 2), (words, completed.returncode, completed.stderr)
    assert "Sanitizer" not in completed.stderr, completed.stderr
    if words[:1] == ("run",) and "--check" in words and completed.returncode == 0:
        assert "nearby" not in completed.stdout, completed.stdout  # inputs that a test picked keep to the bound itself
        CHECKED.add(words[1])
    return Result(completed)


def done(*words, env=None):
    result = sectile(*words, env=env)
    assert result.status == 0, (words, result.status, result.out, result.err)
    return result


def refused(*words, says=(), env=None):
    """It must end with status 2 and one line on standard error with all these words."""
    result = sectile(*words, env=env)
    assert result.status == 2, (words, result.status, result.out, result.err)
    assert result.err.count("\n") == 1 and result.err.startswith("sectile: "), result.err
    for word in (says,) if isinstance(says, str) else says:
        assert word in result.err, (word, result.err)
    return result


def write_npy(path, descr, shape, values=None, fortran=False):
    count = math.prod(shape)
    values = list(values) if values is not None else [0] * count
    assert len(values) == count, (len(values), count)
    header = repr({"descr": descr, "fortran_order": fortran, "shape": tuple(shape)}).encode() + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        file.write(struct.pack(f"<{count}{FORMATS[descr]}", *values))
    return path


def read_npy(path):
    """(descr, shape, values)"""
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10 : 10 + length])
    count = math.prod(header["shape"])
    values = struct.unpack(f"<{count}{FORMATS[header['descr']]}", data[10 + length :])
    return header["descr"], header["shape"], list(values)


def write_floats(name, descr, *shape, spread=1.0):
    return write_npy(name, descr, shape, [random.gauss(0, spread) for _ in range(math.prod(shape))])


def run(kernel, inputs, *words, outputs=()):
    """`sectile run --check` on the device that the test was given. Arguments are in files of their names, or of the
    name behind a '='."""
    files = [name if "=" in name else f"{name}={name}" for name in (*inputs, *outputs)]
    out = ("--out", *files[len(inputs) :]) if outputs else ()
    return done("run", kernel, "--in", *files[: len(inputs)], *out, *words, "--check", "--device", sys.argv[2])
