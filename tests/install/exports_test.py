# What libsectile exports is what its public headers and tools/Programs.h declare. exports_test.py LIBRARY HEADER_FOLDER...
# The linker gets its list from clang's reading of the headers (cmake/exports.py); this reads their text instead.
import glob
import os
import re
import subprocess
import sys

# A name by accident would add thousands: LLVM's and the standard library's templates, and all of lld.
MOST = 1000
ERRORS = {"Error", "CompileError", "LaunchError", "InputError", "DeviceError"}
library, programs, *folders = sys.argv[1:]


def text_of(path):
    with open(path) as file:
        return re.sub(r"//.*", "", file.read())


headers = [path for folder in folders for path in glob.glob(os.path.join(folder, "sectile/**/*.h"), recursive=True)]
public = "\n".join(map(text_of, headers))
declared = set(re.findall(r"[A-Za-z_]\w*", public + text_of(programs)))
listed = subprocess.run(["nm", "-DCg", "--defined-only", "--without-symbol-versions", library], capture_output=True, text=True, check=True).stdout
# Lines of the version itself have no name's type of code or data.
symbols = [line.split(" ", 2)[2] for line in listed.splitlines() if line.split(" ", 2)[1] != "A"]
interface = set(re.findall(r"^SECTILE_API .*?\b(sectile_\w+)\(",
                           "\n".join(map(text_of, glob.glob(os.path.join(folders[-1], "sectile.h")))), re.M))
assert interface, "the last folder is that of the C interface"
missing = interface - set(symbols)
assert not missing, f"declared in sectile.h and not exported: {missing}"
symbols = [symbol for symbol in symbols if symbol not in interface]

for symbol in symbols:
    name = re.sub(r"^(typeinfo name|typeinfo|vtable) for |\[abi:\w+\]", "", symbol)
    name = re.sub(r"^void (?=[^(]*<)|[<(].*", "", name)  # c++filt gives what a template returns
    assert name.startswith("sectile::"), f"{symbol} is exported, and not Sectile's"
    unknown = [word for word in re.findall(r"[A-Za-z_]\w*", name) if word not in declared]
    assert not unknown, f"{symbol} is exported, but no public header has {unknown}"
assert not re.search(r"\b(llvm|mlir|lld)::", "\n".join(symbols)), "a signature names LLVM's types"
missing = {f"typeinfo for sectile::{name}" for name in ERRORS} - set(symbols)
assert not missing, f"not exported, so programs may fail to catch: {missing}"
programs = [symbol for symbol in symbols if symbol.startswith("sectile::tool::")]
assert len(programs) == 2, programs
print(f"{len(symbols)} symbols")
assert len(symbols) <= MOST, "too many"
