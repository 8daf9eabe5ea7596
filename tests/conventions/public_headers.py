# Holds public headers to their promise: each compiles alone and without warnings, <sectile/sectile.h> in under a second,
# and none brings in LLVM, MLIR, CUDA or HIP. public_headers.py COMPILER INCLUDE_FOLDER...
import glob
import os
import re
import resource
import subprocess
import sys
import tempfile

FOREIGN = re.compile(r"/(llvm|mlir|cuda|hip|rocm)[-/]", re.I)
compiler, folders = sys.argv[1], sys.argv[2:]
flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror"] + ["-I" + folder for folder in folders]


def compile_alone(name, option):
    """Seconds of processor time, and what the compiler printed."""
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write(f"#include <sectile/{name}>\n")
        source.flush()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([compiler, *flags, option, source.name], capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"<sectile/{name}> does not compile alone:\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


names = sorted({os.path.basename(path) for folder in folders for path in glob.glob(folder + "/sectile/*.h")})
if "sectile.h" not in names:
    sys.exit("there is no sectile.h in " + " ".join(folders))
for name in names:
    _, dependencies = compile_alone(name, "-M")
    foreign = [path for path in dependencies.split() if FOREIGN.search(path) and "/lib/llvm-" not in path]
    if foreign:
        sys.exit(f"<sectile/{name}> includes {foreign[0]}")
# What else runs on the processor's other threads makes it slower: the best of up to ten.
seconds = 1.0
for _ in range(10):
    seconds = min(seconds, compile_alone("sectile.h", "-fsyntax-only")[0])
    if seconds < 1:
        break
print(f"{len(names)} headers; sectile.h takes {seconds:.2f} s")
if seconds >= 1:
    sys.exit("<sectile/sectile.h> takes a second or more")
