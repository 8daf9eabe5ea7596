# The program `sectile`, which belongs to the library: in the wheel, an installation and a build tree it lies at the same
# place beside it.
import json
import os
import subprocess
import sys

from ._errors import Error, InvalidError
from ._library import library


def path():
    found = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(library()))), "bin", "sectile")
    if not os.access(found, os.X_OK):
        raise Error(f"there is no program {found}, which belongs to the library {library()}")
    return found


def run(*words):
    """What the program prints. Its errors are exceptions: InvalidError for status 2, else Error."""
    done = subprocess.run([path(), *map(os.fspath, words)], capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().removeprefix("sectile: ") or done.stdout.strip()
        raise (InvalidError if done.returncode == 2 else Error)(said)
    return done.stdout


def ask(*words):
    """What it prints as JSON."""
    return json.loads(run(*words, "--json"))


def call_words(shape, dtype, options, inputs):
    """How the program is told of a call: extents and options as dictionaries, names of optional inputs."""
    words = []
    if shape:
        words += ["--shape", ",".join(f"{axis}={extent}" for axis, extent in shape.items())]
    if dtype:
        words += ["--dtype", dtype]
    for name, value in (options or {}).items():
        words += ["--opt", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    if inputs:
        words += ["--with", ",".join(inputs)]
    return words


def main():
    program = path()
    os.execv(program, [program, *sys.argv[1:]])
