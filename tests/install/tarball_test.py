# The tarball for any Linux, unpacked where it is moved to: a program in C is built against it and runs, and so does the
# program `sectile`; neither needs LLVM. tarball_test.py BUILD SOURCE COMPILER
# It takes some minutes: `./dev test --all` runs it.
import glob
import os
import re
import subprocess
import sys
import tarfile
import tempfile

build, source, compiler = sys.argv[1:]
SKIPPED = 77


def run(*words, **options):
    completed = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    assert completed.returncode == 0, (words, completed.stdout[-4000:])
    return completed.stdout


if os.environ.get("SECTILE_TEST_ALL") != "1":
    print("skipped: only with SECTILE_TEST_ALL=1")
    sys.exit(SKIPPED)
run("cmake", "--build", build, "--target", "sectile_tarball")
(tarball,) = glob.glob(os.path.join(build, "dist", "*.tar.xz"))
print(f"{os.path.basename(tarball)}: {os.path.getsize(tarball) / 1e6:.1f} MB")
assert os.path.getsize(tarball) < 32e6
with tempfile.TemporaryDirectory() as folder:
    with tarfile.open(tarball) as tar:
        assert all(member.isfile() and member.uname == "root" for member in tar), tar.getnames()
        tar.extractall(folder, filter="data")
    (name,) = os.listdir(folder)
    moved = os.path.join(folder, "moved here")
    os.rename(os.path.join(folder, name), moved)
    # Nothing of this machine's settings, no cache.
    where = {"HOME": folder, "PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": folder}
    library = os.path.join(moved, "lib")
    flags = run("pkg-config", "--cflags", "--libs", "sectile", env={**where, "PKG_CONFIG_PATH": os.path.join(library, "pkgconfig")})
    flags = [flag.replace("\\ ", " ") for flag in re.findall(r"(?:\\.|\S)+", flags)]
    example = os.path.join(folder, "softmax")
    run(compiler, "-std=c11", os.path.join(moved, "share/doc/sectile/softmax.c"), "-o", example, *flags, "-lm",
        f"-Wl,-rpath,{library}")  # fmt: skip
    print(run(example, env=where))
    assert not re.search("LLVM|MLIR|stdc|not found", run("ldd", os.path.join(library, "libsectile.so")))
    assert " ok" in run(os.path.join(moved, "bin/sectile"), "demo", "--device", "virtual:sm_90a", env=where)
    run(os.path.join(moved, "bin/sectile"), "build", "softmax", "--target", "sm_90a,gfx942", "-o", "x.sectile", env=where, cwd=folder)
