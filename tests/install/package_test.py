# Debian's packages, built, checked by lintian and used in empty roots of Debian 12 and 13: package_test.py SOURCE
# It takes half an hour and the network: `./dev test --all` runs it, as root, where mmdebstrap and lintian are installed.
import glob
import os
import shutil
import sys
import tempfile

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from roots import inside, needs_roots, run  # noqa: E402

(source,) = sys.argv[1:]
SECURITY = "http://security.debian.org/debian-security"
MIRROR = "http://deb.debian.org/debian"
# What a user does: the program's own check, a program of one's own by find_package, one in C, a sealed one without LLVM,
# and one that ships its kernels to the root that has the runtime alone.
USE = """set -eu
sectile --version
sectile demo --device virtual:sm_90a
cd /tmp && cp -r /usr/share/doc/sectile/examples . && cd examples/find_package
cmake -G Ninja -S . -B build >/dev/null && cmake --build build >/dev/null && build/uses_sectile | tail -n 1
g++ -std=c++20 -O1 ../vector_add.cpp -o /tmp/vector_add $(pkg-config --cflags --libs sectile)
/tmp/vector_add
g++ -std=c++20 -O1 ../vector_add.cpp -o /tmp/sealed $(pkg-config --cflags --libs sectile-runtime)
! ldd /tmp/sealed | grep -E 'LLVM|MLIR'
gcc -std=c11 ../c/softmax.c -o /tmp/softmax $(pkg-config --cflags --libs sectile) -lm
/tmp/softmax
cd ../bundle
cmake -G Ninja -S . -B build "-DTARGETS=virtual:sm_90a;sm_90a" >/dev/null && cmake --build build >/dev/null
mkdir /tmp/shipped && cp build/ships_kernels build/ships_kernels_beside build/kernels.sectile /tmp/shipped
"""
RUNTIME_ONLY = """set -eu
! ldd /usr/lib/x86_64-linux-gnu/libsectile_kernels.so.* | grep -E 'LLVM|MLIR|not found'
test ! -e /usr/lib/llvm-22
chmod -R go-w /tmp/shipped && chown -R root:root /tmp/shipped
/tmp/shipped/ships_kernels virtual:sm_90a
/tmp/shipped/ships_kernels_beside virtual:sm_90a
"""


needs_roots("lintian", "dh")

packages = os.environ.get("SECTILE_PACKAGES")  # those of an earlier `./dev package`
if not packages:
    run(os.path.join(source, "dev"), "package", env={**os.environ, "SECTILE_NO_APT": "1"})
    packages = os.path.join(source, "dist")
debs = glob.glob(os.path.join(packages, "*.deb"))
assert len(debs) == 7, debs
print(run("lintian", "--fail-on", "error,warning", "--suppress-tags", "initial-upload-closes-no-bugs",
          *glob.glob(os.path.join(packages, "*.changes"))))


def use(suite, names, script, *others, shipped=None):
    """Installs these packages into an empty root and runs the script there. `shipped`: a folder that is in /tmp."""
    files = [deb for deb in debs if os.path.basename(deb).split("_")[0] in names]
    assert len(files) == len(names), (files, names)
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.join(folder, "root")
        run("mmdebstrap", "--variant=apt", f"--include=ca-certificates{''.join(',' + name for name in others)}", suite,
            root, f"deb {MIRROR} {suite} main", f"deb {SECURITY} {suite}-security main")
        for deb in files:
            shutil.copy(deb, root + "/tmp")
        if shipped and os.path.exists(shipped):
            shutil.copytree(shipped, root + "/tmp/shipped")
        install = "apt-get update -qq && apt-get install -qq --no-install-recommends /tmp/*.deb >/dev/null"
        run("chroot", root, "sh", "-c", install, env={"PATH": os.environ["PATH"], "DEBIAN_FRONTEND": "noninteractive"})
        print(suite, run(*inside(root), "sh", "-c", script, env={"PATH": os.environ["PATH"], "HOME": "/root"}))
        if shipped and not os.path.exists(shipped):
            shutil.copytree(root + "/tmp/shipped", shipped)


everything = ["libsectile-rt0.1", "libsectile-vgpu0.1", "libsectile-kernels0.1", "libsectile0.1", "libsectile-dev", "sectile",
              "sectile-doc"]  # fmt: skip
runtime = ["libsectile-rt0.1", "libsectile-vgpu0.1", "libsectile-kernels0.1"]
with tempfile.TemporaryDirectory() as kept:
    # What Debian 12 has built runs on both.
    for suite in ["bookworm", "trixie"]:
        use(suite, everything, USE, "g++", "cmake", "ninja-build", "pkg-config", shipped=os.path.join(kept, f"of-{suite}"))
        use(suite, runtime, RUNTIME_ONLY, shipped=os.path.join(kept, "of-bookworm"))
