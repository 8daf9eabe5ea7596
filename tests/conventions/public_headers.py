# Holds public headers to their promise: each compiles alone and without warnings, <sectile/sectile.h> brings in little, and
# none brings in LLVM, MLIR, CUDA or HIP. public_headers.py COMPILER INCLUDE_FOLDER...
import glob
import os
import re
import subprocess
import sys
import tempfile

FOREIGN = re.compile(r"/(llvm|mlir|cuda|hip|rocm)[-/]", re.I)
compiler, folders = sys.argv[1], sys.argv[2:]
# Of preprocessed text, without blank lines and line markers: what the compiler reads takes it as long, and is as much on every
# machine. With Debian 12's standard library it was 2.13 million, nearly all of that library, in about a second of clang's
# time. Another of its large headers, as <regex> or <iomanip>, would be too much.
MOST_BYTES = 2_200_000
flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror"] + ["-I" + folder for folder in folders]


def compile_alone(name, *options):
    """What the compiler printed."""
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write(f"#include <sectile/{name}>\n")
        source.flush()
        done = subprocess.run([compiler, *flags, *options, source.name], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"<sectile/{name}> does not compile alone:\n{done.stderr}")
    return done.stdout


names = sorted({os.path.basename(path) for folder in folders for path in glob.glob(folder + "/sectile/*.h")})
if "sectile.h" not in names:
    sys.exit("there is no sectile.h in " + " ".join(folders))
for name in names:
    included = compile_alone(name, "-fsyntax-only", "-MD", "-MF", "/dev/stdout").split()
    assert any(path.endswith(f"/sectile/{name}") for path in included), included
    foreign = [path for path in included if FOREIGN.search(path) and "/lib/llvm-" not in path]
    if foreign:
        sys.exit(f"<sectile/{name}> includes {foreign[0]}")
lines = compile_alone("sectile.h", "-E").splitlines()
size = sum(len(line) + 1 for line in lines if line.strip() and not line.startswith("#"))
print(f"{len(names)} headers; sectile.h brings in {size} bytes")
if size > MOST_BYTES:
    sys.exit(f"<sectile/sectile.h> brings in {size} bytes of source, more than {MOST_BYTES}")
