# Sealed programs over an installed Sectile, by CMake and by pkg-config, by this compiler and by g++: examples link without the
# compiler's library, and a launch takes its code from a bundle or says that there is none. sealed_test.py BUILD SOURCE FAKE_CUDA COMPILER
import os
import re
import shutil
import subprocess
import sys
import tempfile

build, source, fake_cuda, compiler = sys.argv[1:]
EXAMPLES = {
    "sectile-runtime": ["vector_add", "softmax", "layer_norm", "matmul", "attention", "launches", "debugging"],
    "sectile-kernels": ["gemm", "flash", "attention_gradients"],
}
LIBRARIES = ["own_library"]
# These tune, or time what they launch.
NEED_COMPILER = ["autotune", "benchmark", "explicit_attention", "explicit_matmul"]
NO_CODE = "this program has no code for it and no compiler: link it with Sectile::sectile, which compiles here"
CMAKE = """cmake_minimum_required(VERSION 3.25)
project(Sealed LANGUAGES CXX)
find_package(Sectile REQUIRED)
add_executable(sealed {source}/tests/install/sealed.cpp)
target_link_libraries(sealed PRIVATE Sectile::runtime)
add_executable(sealed_kernels {source}/tests/install/sealed.cpp)
target_compile_definitions(sealed_kernels PRIVATE WITH_KERNELS)
target_link_libraries(sealed_kernels PRIVATE Sectile::kernels)
if(MIXED)
  target_link_libraries(sealed_kernels PRIVATE Sectile::sectile)
endif()
"""


def attempt(*words, **environment):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, **environment})


def run(*words, **environment):
    completed = attempt(*words, **environment)
    assert completed.returncode == 0, (words, completed.stdout)
    return completed.stdout


def libraries_of(program):
    return set(re.findall(r"libsectile\w*|libLLVM|libMLIR", run("ldd", program)))


def lines(program, *words, **environment):
    return run(program, "cuda:0", *words, SECTILE_CUDA_LIBRARY=fake_cuda, **environment).splitlines()


def check_bundles(sealed, compiles, folder):
    """A program that compiles writes a bundle, and the same program, sealed, launches from it."""
    bundle = os.path.join(folder, "app.sectile")
    chip = {"FAKE_CUDA_CAPABILITY": "90"}
    done = ["vector_add: done", "prepare: done", "matmul: done"]
    assert lines(compiles, **chip, SECTILE_BUILD=bundle, SECTILE_CACHE_DIR="")[1:4] == done
    assert lines(sealed, bundle, **chip)[1:5] == ["bundle: done", *done]
    with open(bundle, "rb") as file:
        whole = file.read()
    # Again, now from the cache: the same codes are the same file.
    cache = os.path.join(folder, "cache")
    for _ in range(2):
        lines(compiles, **chip, SECTILE_BUILD=bundle, SECTILE_CACHE_DIR=cache)
        with open(bundle, "rb") as file:
            assert file.read() == whole
    older = lines(sealed, bundle, FAKE_CUDA_CAPABILITY="80")
    assert older[2] == (f"vector_add: launch error: kernel 'vector_add': {bundle} has no code of it for sm_80 (but for sm_90a): "
                        "build the bundle for sm_80, too, or link Sectile::sectile, which compiles here"), older
    with open(bundle, "wb") as file:
        file.write(whole[:1000])
    cut = lines(sealed, bundle, **chip)
    assert cut[1] == f"bundle: error: bundle '{bundle}' is cut off: it has 1000 bytes of {len(whole)}", cut
    assert cut[2] == f"vector_add: launch error: kernel 'vector_add': {NO_CODE}", cut
    nowhere = attempt(compiles, "cuda:0", SECTILE_CUDA_LIBRARY=fake_cuda, SECTILE_BUILD=os.path.join(folder, "none/app.sectile"))
    assert nowhere.returncode == 0 and "cannot be written: No such file" in nowhere.stdout, nowhere.stdout


def check(program, with_kernels):
    assert libraries_of(program) == ({"libsectile_rt", "libsectile_kernels"} if with_kernels else {"libsectile_rt"})
    said = lines(program)
    expected = [
        "open: device error: device 'interpreter': this program has no compiler, which it needs: link it with Sectile::sectile",
        f"vector_add: launch error: kernel 'vector_add': {NO_CODE}",
        f"prepare: launch error: kernel 'vector_add': {NO_CODE}",
    ]
    if with_kernels:
        expected += [
            f"matmul: launch error: kernel 'matmul': {NO_CODE}",
            "matmul of others: launch error: matmul: K is 32 in b [32, 48], but 48 in a [32, 48]; b is [K, N], or [N, K] with "
            "trans_b=true",
            "run_kernel: launch error: there is no kernel 'matmull'; is it 'matmul'?",
        ]
    assert said == expected, said


named = sorted(sum(EXAMPLES.values(), LIBRARIES + NEED_COMPILER))
there = sorted(name[:-4] for name in os.listdir(os.path.join(source, "examples")) if name.endswith(".cpp"))
assert named == there, (named, there)

with tempfile.TemporaryDirectory() as folder:
    prefix = os.path.join(folder, "prefix")
    run("cmake", "--install", build, "--prefix", prefix)
    project = os.path.join(folder, "project")
    os.mkdir(project)
    with open(os.path.join(project, "CMakeLists.txt"), "w") as file:
        file.write(CMAKE.replace("{source}", source))
    configure = ["cmake", "-G", "Ninja", "-S", project, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}"]
    run(*configure, "-B", os.path.join(folder, "sealed"))
    run("cmake", "--build", os.path.join(folder, "sealed"))
    check(os.path.join(folder, "sealed/sealed"), False)
    check(os.path.join(folder, "sealed/sealed_kernels"), True)
    # One program has a compiler, or it has not.
    mixed = attempt(*configure, "-B", os.path.join(folder, "mixed"), "-DMIXED=ON")
    assert mixed.returncode and "SECTILE_SEALED" in mixed.stdout, mixed.stdout

    def options(*modules):
        words = run("pkg-config", "--cflags", "--libs", *modules, PKG_CONFIG_PATH=os.path.join(prefix, "lib/pkgconfig")).split()
        return [*words, "-Wl,--no-as-needed", f"-Wl,-rpath,{prefix}/lib"]

    compilers = sorted({compiler, shutil.which("g++") or compiler})
    for place, other in enumerate(compilers):
        def mine(names):
            """By turns each compiler has one of the examples, with SECTILE_TEST_ALL all."""
            return names if os.environ.get("SECTILE_TEST_ALL") == "1" else names[place :: len(compilers)]

        def build_program(name, path, *words):
            program = os.path.join(folder, name)
            run(other, "-std=c++20", "-Wall", "-Wextra", "-Werror", os.path.join(source, path), "-o", program, *words)
            return program

        check(build_program("runtime", "tests/install/sealed.cpp", *options("sectile-runtime")), False)
        sealed = build_program("kernels", "tests/install/sealed.cpp", "-DWITH_KERNELS", *options("sectile-kernels"))
        check(sealed, True)
        compiles = build_program("compiles", "tests/install/sealed.cpp", "-DWITH_KERNELS", *options("sectile"))
        check_bundles(sealed, compiles, folder)
        for module, names in EXAMPLES.items():
            for name in mine(names):
                program = build_program(name, f"examples/{name}.cpp", *options(module))
                assert "libsectile" not in libraries_of(program), name
        for name in LIBRARIES:
            library = build_program(name, f"examples/{name}.cpp", "-shared", "-fPIC", "-Wl,-z,defs", *options("sectile-kernels"))
            assert "libsectile" not in libraries_of(library), name
        for name in mine(NEED_COMPILER):
            words = (other, "-std=c++20", "-fsyntax-only", os.path.join(source, f"examples/{name}.cpp"), *options("sectile-kernels"))
            refused = attempt(*words)
            assert refused.returncode and "a sealed program has no compiler" in refused.stdout, (name, refused.stdout)

    # A process may have loaded both libraries all the same: there is one list of kernels, whichever comes first. A kernel that
    # was compiled sealed cannot be traced.
    for order in (["sectile", "sectile-kernels"], ["sectile-kernels", "sectile"]):
        libraries = [word for module in order for word in options(module) if word != "-DSECTILE_SEALED"]
        for sealed, said in (
            ([], "done"),
            (["-DSECTILE_SEALED"], "was compiled with SECTILE_SEALED, so there is nothing to compile here: link Sectile::sectile"),
        ):
            program = os.path.join(folder, "both")
            run(compiler, "-std=c++20", *sealed, os.path.join(source, "tests/install/both_libraries.cpp"), "-o", program,
                "-Wl,--no-as-needed", *libraries)
            assert {"libsectile", "libsectile_kernels"} <= libraries_of(program)
            printed = run(program).splitlines()
            assert printed[0] == "matmul: right" and said in printed[1], (order, printed)
