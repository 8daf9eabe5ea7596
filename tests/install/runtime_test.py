# libsectile_rt is what a program needs that compiles nothing: small, and without LLVM. runtime_test.py LIBRARY
import os
import re
import subprocess
import sys
import tempfile

# A C++ program has these anyway.
NEEDED = {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2"}
MOST_BYTES = 500_000

library = sys.argv[1]


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", library)))
assert needed <= NEEDED, f"the runtime needs {needed - NEEDED}"
symbols = output("nm", "-DC", library).splitlines()
foreign = [symbol for symbol in symbols if re.search(r"\b(llvm|mlir|lld)::|LLVM", symbol)]
assert not foreign, f"the runtime has names of LLVM's: {foreign}"
missing = [symbol for symbol in symbols if " U " in symbol and "sectile::" in symbol]
assert not missing, f"the runtime needs what only the compiler's library has: {missing}"
with tempfile.TemporaryDirectory() as folder:
    stripped = os.path.join(folder, "library")
    output("strip", "-o", stripped, library)
    size = os.path.getsize(stripped)
print(f"{size} bytes")
assert size < MOST_BYTES, f"the runtime has {size} bytes"
