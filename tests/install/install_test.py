# Installs the build into an empty folder, moves that elsewhere, and uses it there as others would: by find_package, by
# pkg-config, by its programs. Then removes it. install_test.py BUILD SOURCE COMPILER
import os
import re
import shutil
import subprocess
import sys
import tempfile

build, source, compiler = sys.argv[1:]


def run(*words, **environment):
    completed = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**os.environ, **environment})
    assert completed.returncode == 0, (words, completed.stdout)
    return completed.stdout


def files_in(folder):
    return sorted(os.path.relpath(os.path.join(root, name), folder) for root, _, names in os.walk(folder) for name in names)


def checks(prefix):
    """Nothing installed names the machine it was built on, or where it was installed first."""
    for name in files_in(prefix):
        path = os.path.join(prefix, name)
        if name.endswith((".h", ".cmake", ".pc")):
            with open(path) as file:
                text = file.read()
            assert source not in text and build not in text and "/prefix" not in text, name
        elif name.startswith(("bin/", "lib/lib")):
            found = re.search(r"R(?:UN)?PATH\).*\[(.*)\]", run("readelf", "-d", path))
            for folder in found[1].split(":") if found else []:
                assert folder.startswith("$ORIGIN") or "llvm" in folder, (name, folder)


with tempfile.TemporaryDirectory() as folder:
    first, prefix = os.path.join(folder, "prefix"), os.path.join(folder, "moved")
    run("cmake", "--install", build, "--prefix", first)
    os.rename(first, prefix)
    checks(prefix)
    installed = files_in(prefix)
    for name in ["LICENSE", "README.md", "docs/tutorial.md", "examples/vector_add.cpp", "examples/find_package/main.cpp"]:
        assert "share/doc/sectile/" + name in installed, name
    with open(os.path.join(prefix, "share/sectile/installed-files")) as file:
        assert sorted(file.read().split("\n")[:-1]) == installed
    # While the major version is 0, the minor one tells what fits.
    version = run(os.path.join(prefix, "bin/sectile"), "--version").split()[1]
    major, minor, _ = version.split(".")
    name = "libsectile.so." + (f"0.{minor}" if major == "0" else major)
    assert f"[{name}]" in run("readelf", "-d", os.path.join(prefix, "lib/libsectile.so")), name
    assert run(os.path.join(prefix, "bin/sectile-opt"), "--help")

    project = os.path.join(folder, "project")
    run("cmake", "-G", "Ninja", "-S", os.path.join(prefix, "share/doc/sectile/examples/find_package"), "-B", project,
        f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}")
    run("cmake", "--build", project)
    output = run(os.path.join(project, "uses_sectile"))
    print(output)
    assert "axpy on" in output and output.endswith("ok\n"), output

    def loads(library):
        words = ["--load", library, "compile", "scale_rows", "--target", "sm_90a", "--emit", "ptx"]
        assert ".entry scale_rows" in run(os.path.join(prefix, "bin/sectile"), *words), library

    loads(os.path.join(project, "libmine.so"))

    # From C.
    where = {"PKG_CONFIG_PATH": os.path.join(prefix, "lib/pkgconfig")}
    options = run("pkg-config", "--cflags", "--libs", "sectile", **where).split()
    run(compiler.replace("clang++", "clang").replace("g++", "gcc"), "-std=c11",
        os.path.join(prefix, "share/doc/sectile/examples/c/softmax.c"), "-o", os.path.join(folder, "softmax"), *options,
        f"-Wl,-rpath,{prefix}/lib")
    assert "0.250 0.250" in run(os.path.join(folder, "softmax"), SECTILE_DEVICE="interpreter")

    # By another compiler, too, where there is one: the library does not mind.
    assert run("pkg-config", "--modversion", "sectile", **where).strip() == version
    for other in {compiler, shutil.which("g++") or compiler}:
        program = os.path.join(folder, "catches")
        run(other, "-std=c++20", "-O1", os.path.join(source, "tests/install/catches.cpp"), "-o", program, *options,
            f"-Wl,-rpath,{prefix}/lib")
        assert run(program) == "all caught\n"
        program = os.path.join(folder, "flash")
        run(other, "-std=c++20", "-O1", os.path.join(prefix, "share/doc/sectile/examples/flash.cpp"), "-o", program,
            *options, f"-Wl,-rpath,{prefix}/lib")
        assert "largest error 0.0e+00" in run(program)
        library = os.path.join(folder, "libother.so")
        run(other, "-std=c++20", "-O1", "-shared", "-fPIC", "-fvisibility=hidden",
            os.path.join(prefix, "share/doc/sectile/examples/own_library.cpp"), "-o", library, *options)
        loads(library)

    # What others put there stays.
    others = os.path.join(prefix, "include/other.h")
    open(others, "w").close()
    run(os.path.join(source, "dev"), "uninstall", prefix)
    assert files_in(prefix) == ["include/other.h"], files_in(prefix)
    left = [name for _, names, _ in os.walk(prefix) for name in names]
    assert not any(re.search("sectile", name, re.I) for name in left), left
