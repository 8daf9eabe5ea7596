# cmake/exports.py lists what headers declare and leave to the library, and refuses variables that would be there
# twice. exports_list_test.py CLANG EXPORTS.PY
import os
import re
import subprocess
import sys
import tempfile

clang, script = sys.argv[1:]


def exports(body):
    """The names in the version script for a header with this in namespace sectile; None where it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        header, output = os.path.join(folder, "header.h"), os.path.join(folder, "exports.map")
        with open(header, "w") as file:
            file.write(f"#pragma once\nnamespace sectile {{ void always(); {body} }}\n")
        done = subprocess.run([sys.executable, script, clang, output, "0.1", "-", header, "--", "-std=c++20"],
                              capture_output=True, text=True)
        if done.returncode:
            return None, done.stderr
        with open(output) as file:
            text = file.read()
        assert text.startswith("SECTILE_0.1 {"), text
        names = re.findall(r"^    (\S+);$", text, re.M)
        assert names.pop(names.index("_ZN7sectile6alwaysEv"))
        return names, ""


def listed(body):
    names, error = exports(body)
    assert names is not None, error
    return names


assert listed("int f(int);") == ["_ZN7sectile1fEi"]
assert listed("namespace detail { void g(); }") == ["_ZN7sectile6detail1gEv"]
# What each user compiles, the library need not have.
assert listed("inline int f() { return 1; } constexpr int g() { return 1; } inline constexpr int n = 1;") == []
assert listed("int f(); static int (*const g)() = f;") == ["_ZN7sectile1fEv"]
assert listed("struct A { A() = default; int f() { return 1; } bool operator==(const A &) const = default; };") == []
assert listed("struct A { A(); ~A(); static int n; };") == [
    "_ZN7sectile1A1nE", "_ZN7sectile1AC1Ev", "_ZN7sectile1AC2Ev", "_ZN7sectile1AD1Ev", "_ZN7sectile1AD2Ev"]
# Programs catch by it.
assert listed("struct A { virtual ~A() {} };") == ["_ZT[ISV]N7sectile1AE"]
# Templates: those that the library instantiates.
assert listed("template <class T> void f(T);") == ["_ZN7sectile1fI*"]
assert listed("template <class T> void f(T); template <class T> void f(T) {} template <class T> struct A { void g(); };") == []
# C, but for what users define themselves; all names have the version.
assert listed('extern "C" int sectile_f(int); extern "C" void sectile_register_kernels();') == ["sectile_f"]
for body, name in [("inline int counter = 0;", "counter"), ("inline int f() { static int n = 0; return ++n; }", "n")]:
    names, error = exports(body)
    assert names is None and f"sectile::{name}" in error, (body, names, error)
names, error = exports("int f(Unknown);")
assert names is None and "Unknown" in error, error
