# libsectile_rt is what a program needs that compiles nothing, libsectile_kernels adds the library's kernels: both are small,
# and without LLVM, and so is libsectile_vgpu. runtime_test.py RUNTIME KERNELS VIRTUAL
import os
import re
import subprocess
import sys
import tempfile

# A C++ program has these anyway.
SYSTEM = {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2"}

runtime, kernels, virtual = sys.argv[1:]


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def names(library, option):
    return {line.split()[-1].split("@")[0] for line in output("nm", "-D", option, library).splitlines()}


def check(library, needed, most_bytes, given):
    """`given`: the names that what it needs has."""
    listed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", library)))
    assert listed <= needed, f"{library} needs {listed - needed}"
    symbols = output("nm", "-DC", library).splitlines()
    foreign = [symbol for symbol in symbols if re.search(r"\b(llvm|mlir|lld)::|LLVM", symbol)]
    assert not foreign, f"{library} has names of LLVM's: {foreign}"
    missing = {name for name in names(library, "--undefined-only") if "7sectile" in name} - given
    assert not missing, f"{library} needs what only the compiler's library has: {missing}"
    with tempfile.TemporaryDirectory() as folder:
        stripped = os.path.join(folder, "library")
        output("strip", "-o", stripped, library)
        size = os.path.getsize(stripped)
    print(f"{os.path.basename(library)}: {size} bytes")
    assert size < most_bytes, f"{library} has {size} bytes"


check(runtime, SYSTEM, 500_000, set())
soname = re.search(r"\(SONAME\).*\[(.*)\]", output("readelf", "-d", runtime))[1]
# So much host code for each kernel: more kernels may take more, and a kernel no more than before.
with open(os.path.join(os.path.dirname(__file__), "../../docs/kernels.md")) as page:
    count = int(re.search(r"The library has (\d+) kernels", page.read())[1])
check(kernels, SYSTEM | {soname}, 24_000 * count, names(runtime, "--defined-only"))
check(virtual, SYSTEM | {soname}, 600_000, names(runtime, "--defined-only"))
assert names(virtual, "--defined-only") == {"sectile_open_virtual_device"}, names(virtual, "--defined-only")
# What libsectile_kernels exports is a part of what libsectile does (exports_test.py looks at that): calls of kernels, and no tracing.
exported = output("nm", "-DC", "--defined-only", kernels)
for name in ("sectile::run_kernel", "sectile::prepare_kernel", "sectile::detail::addOptions", "sectile::detail::launchGemm",
             "sectile::flash::detail::attend", "sectile::detail::registerKernel"):
    assert re.search(re.escape(name) + r"(\[abi:cxx11\])?\(", exported), f"{name} is not there"
assert not re.search(r"\btrace[A-Z]\w*[<(]", exported), "it traces"
