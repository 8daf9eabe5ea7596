# The library with LLVM inside runs on any Linux with glibc 2.34: it and its program need nothing else, export the C
# interface alone, and compile for every vendor; Python's module needs no more.
# static_test.py LIBRARY PROGRAM MODULE HEADER
import os
import re
import subprocess
import sys
import tempfile
import time

GLIBC = (2, 34)
# manylinux's lists have these, and every Linux has them.
SYSTEM = {"libm.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2"}
MOST_BYTES = 130_000_000  # 113 MB, 35 MB in a wheel; all code generators of LLVM would make it 160 MB

library, program, module, header = sys.argv[1:]


def output(*command, **how):
    return subprocess.run(command, capture_output=True, text=True, check=True, **how).stdout


def check_needs(file, system):
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", file)))
    assert needed <= system, f"{file} needs {needed - system}"
    versions = set(re.findall(r"Name: (\w+)_([\d.]+) ", output("readelf", "-VW", file)))
    assert {name for name, _ in versions} <= {"GLIBC", "GCC", "SECTILE"}, versions
    newest = max(tuple(map(int, version.split("."))) for name, version in versions if name == "GLIBC")
    assert newest <= GLIBC, f"{file} needs glibc {newest}"
    return newest


newest = check_needs(library, SYSTEM)
check_needs(program, SYSTEM | {os.path.basename(library)})
check_needs(module, SYSTEM)
size = os.path.getsize(library)
print(f"{size} bytes, glibc {newest[0]}.{newest[1]}")
assert size < MOST_BYTES, size

exported = {line.split()[-1].split("@")[0] for line in output("nm", "-D", "--defined-only", library).splitlines()}
with open(header) as file:
    declared = set(re.findall(r"\b(sectile_\w+)\(", file.read()))
# Of C++ only the program's own entry, and not the versions' names, which nm lists as well.
exported = {name for name in exported if not name.startswith("SECTILE_")} - {"_ZN7sectile4tool11sectileMainEiPPc"}
assert exported == declared, (exported - declared, declared - exported)

with tempfile.TemporaryDirectory() as folder:
    # Nothing of this machine's settings, no cache: code is compiled here.
    where = {"HOME": folder, "PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": folder}
    start = time.monotonic()
    version = output(program, "--version", env=where)
    print(f"{version.strip()}, {(time.monotonic() - start) * 1e3:.0f} ms")
    assert "LLVM" in version
    assert " ok" in output(program, "demo", env=where)
    for target, kind, begin in (("sm_90a", "ptx", b"//"), ("gfx942", "hsaco", b"\x7fELF")):
        path = os.path.join(folder, kind)
        output(program, "compile", "softmax", "--target", target, "--emit", kind, "-o", path, env=where)
        with open(path, "rb") as file:
            assert file.read(len(begin)) == begin, (target, kind)
