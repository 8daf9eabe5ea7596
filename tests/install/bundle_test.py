# A project of its own that ships kernels by sectile_add_bundle, over an installed Sectile, by this compiler and by g++: the
# program has its code, or finds it beside itself, and refuses the file of another build. It runs on virtual devices, and a
# program in C calls the kernels by a generated header. bundle_test.py BUILD SOURCE FAKE_CUDA COMPILER
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

build, source, fake_cuda, compiler = sys.argv[1:]
OTHER_PROJECT = """cmake_minimum_required(VERSION 3.25)
project(Other LANGUAGES CXX)
find_package(Sectile REQUIRED)
sectile_add_bundle(kernels {words})
"""
HEADER = """cmake_minimum_required(VERSION 3.25)
project(Header LANGUAGES C CXX)
find_package(Sectile REQUIRED)
sectile_add_bundle(kernels SOURCES {source}/tests/install/header_bundle.cpp TARGETS virtual:sm_90a virtual:gfx942 KERNELS
  HEADER own_kernels.h)
add_executable(calls_c {source}/tests/install/header.c)
add_executable(calls_cxx header.cpp)
foreach(program calls_c calls_cxx)
  target_include_directories(${program} PRIVATE {source})
  target_link_libraries(${program} PRIVATE kernels m)
endforeach()
set_target_properties(calls_c PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF LINKER_LANGUAGE CXX)
target_compile_options(calls_c PRIVATE -Wall -Wextra -pedantic -Werror)
"""
CHOICES = """cmake_minimum_required(VERSION 3.25)
project(Choices LANGUAGES CXX)
find_package(Sectile REQUIRED)
foreach(name own tuned)
  set(TUNING)
  if(name STREQUAL tuned)
    set(TUNING TUNING sm_80=measured.json)
  endif()
  sectile_add_bundle(${name}_kernels SOURCES {source}/tests/install/choices_bundle.cpp TARGETS sm_80 sm_90a KERNELS ${TUNING})
  add_executable(${name} {source}/tests/install/choices.cpp)
  target_link_libraries(${name} PRIVATE ${name}_kernels)
endforeach()
"""


def attempt(*words, **environment):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "SECTILE_CUDA_LIBRARY": fake_cuda, **environment})


def run(*words, **environment):
    completed = attempt(*words, **environment)
    assert completed.returncode == 0, (words, completed.stdout)
    return completed.stdout


def launches(program, capability="90"):
    """What a program prints on the fake driver, which computes nothing: the lines without how much is wrong."""
    completed = attempt(program, "cuda:0", FAKE_CUDA_CAPABILITY=capability)
    assert completed.returncode in (1, 2), completed.stdout
    return [re.sub(r": \d+ wrong", "", line) for line in completed.stdout.splitlines()]


ALL = ["add of 4096 elements on cuda:0", "add of 999 elements on cuda:0", "product of 64 rows", "product of 63 rows"]

with tempfile.TemporaryDirectory() as folder:
    prefix = os.path.join(folder, "prefix")
    run("cmake", "--install", build, "--prefix", prefix)
    example = os.path.join(prefix, "share/doc/sectile/examples/bundle")

    def configure(source, binary, cxx, *options):
        return ("cmake", "-G", "Ninja", "-S", source, "-B", binary, f"-DCMAKE_PREFIX_PATH={prefix}",
                f"-DCMAKE_CXX_COMPILER={cxx}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror", f"-DCMAKE_INSTALL_RPATH={prefix}/lib", *options)  # fmt: skip

    for number, cxx in enumerate([shutil.which("g++") or compiler, compiler]):
        binary = os.path.join(folder, f"build{number}")
        # The library is shared, too; the file is then looked for beside that.
        shared = "ON" if number == 0 else "OFF"
        targets = ["sm_80", "sm_90a", "virtual:sm_80", "virtual:gfx942"]
        run(*configure(example, binary, cxx, f"-DTARGETS={';'.join(targets)}", f"-DBUILD_SHARED_LIBS={shared}"))
        print(run("cmake", "--build", binary))
        program, beside = (os.path.join(binary, name) for name in ("ships_kernels", "ships_kernels_beside"))
        for one in (program, beside):
            needed = run("ldd", one)
            assert not re.search("libLLVM|libMLIR|libsectile.so", needed), needed
            assert ("libkernels" in needed) == (shared == "ON"), needed
            # Whatever the arguments are, there is code; of the newest chip that it runs on.
            for capability in ("80", "89", "90"):
                assert launches(one, capability) == ALL, launches(one, capability)
            # On virtual devices the code runs, and what comes out is right.
            for device in targets[2:]:
                lines = run(one, device).splitlines()
                assert [line.replace(device, "cuda:0") for line in lines] == [line + ": 0 wrong" for line in ALL], lines
            assert "has no code of it for virtual:gfx1100 (but for " in attempt(one, "virtual:gfx1100").stdout
            assert "device 'interpreter': this program has no compiler" in attempt(one, "interpreter").stdout
            assert "virtual:sm_1: " in attempt(one, "virtual:sm_1").stdout
        assert "no work to do" in run("cmake", "--build", binary)

    shutil.move(program, os.path.join(folder, "moved"))
    assert launches(os.path.join(folder, "moved")) == ALL  # the bundle is in the program

    # A launch that the bundle has no code for says so.
    run(*configure(example, binary, compiler, "-DTARGETS=sm_90a"))
    run("cmake", "--build", binary)
    (said,) = launches(os.path.join(binary, "ships_kernels"), "80")
    assert said == ("kernel 'vector_add': kernels.sectile has no code of it for sm_80 (but for sm_90a): build the bundle for sm_80, "
                    "too, or link Sectile::sectile, which compiles here"), said  # fmt: skip

    # Functions of C for the kernels.
    project = os.path.join(folder, "header")
    os.mkdir(project)
    with open(os.path.join(project, "CMakeLists.txt"), "w") as out:
        out.write(HEADER.replace("{source}", source))
    shutil.copy(os.path.join(source, "tests/install/header.c"), os.path.join(project, "header.cpp"))
    of_header = os.path.join(folder, "header_build")
    run(*configure(project, of_header, compiler, f"-DCMAKE_C_COMPILER={shutil.which('gcc') or compiler}"))
    run("cmake", "--build", of_header)
    for name in ("calls_c", "calls_cxx"):
        for device in ("virtual:sm_90a", "virtual:gfx942"):
            said = run(os.path.join(of_header, name), device)
            assert said.splitlines()[-1] == "all right", said

    # The file goes with the program: without it, or with another's, a launch says so.
    away = os.path.join(folder, "away")
    run("cmake", "--install", binary, "--prefix", away)
    program, file = os.path.join(away, "bin/ships_kernels_beside"), os.path.join(away, "bin/kernels.sectile")
    assert launches(program) == ALL
    other = os.path.join(folder, "other.sectile")
    run(os.path.join(prefix, "bin/sectile"), "build", "vector_add", "--target", "sm_90a", "-o", other)
    os.rename(file, file + ".away")
    (said,) = launches(program)
    assert said == f"kernel 'vector_add': bundle '{file}' cannot be read: No such file or directory", said
    shutil.copy(other, file)
    (said,) = launches(program)
    assert re.fullmatch(rf"kernel 'vector_add': bundle '{file}' is not the one that 'kernels_beside' was built with: its identity "
                        r"is [0-9a-f]{32}, but should be [0-9a-f]{32}: take the file of the same build", said), said  # fmt: skip
    os.rename(file + ".away", file)
    assert launches(program) == ALL

    # Without the virtual GPU's library a device of it is refused by name.
    (library,) = (name for name in os.listdir(os.path.join(prefix, "lib")) if re.fullmatch(r"libsectile_vgpu\.so\.\d+\.\d+", name))
    os.rename(os.path.join(prefix, "lib", library), os.path.join(folder, library))
    said = attempt(program, "virtual:sm_90a").stdout
    assert said.startswith(f"device 'virtual:sm_90a': this program has no compiler, and {library} cannot be opened: "), said
    os.rename(os.path.join(folder, library), os.path.join(prefix, "lib", library))

    # A program records its calls of the library's kernels, and a bundle is built of them.
    calls, recorded = os.path.join(folder, "calls.json"), os.path.join(folder, "recorded.sectile")
    sectile = os.path.join(prefix, "bin/sectile")
    attempt(program, "cuda:0", FAKE_CUDA_CAPABILITY="90", SECTILE_RECORD=calls)
    with open(calls) as text:
        made = [(call["kernel"], call["tensors"]["a"]) for call in json.load(text)]
    assert made == [("matmul", {"dtype": "f16", "shape": [m, m + 32], "strides": [m + 32, 1]}) for m in (63, 64)], made
    run(sectile, "build", "--from", calls, "--target", "sm_90a,gfx942", "-o", recorded)
    about = json.loads(run(sectile, "bundle", "show", recorded, "--json"))
    assert about["kernels"] == ["matmul"] and about["choices"] == 2, about  # both calls are of one bucket
    nowhere = attempt(program, "cuda:0", SECTILE_RECORD=os.path.join(folder, "none/calls.json"))
    assert "SECTILE_RECORD" in nowhere.stdout and "No such file" in nowhere.stdout, nowhere.stdout

    # Measurements choose configurations, of calls of other extents too, where they are valid for these; without any the kernel's
    # own choice for the extents that the bundle was built for does, since there is code for no other.
    project = os.path.join(folder, "choices")
    os.mkdir(project)
    cache = {"SECTILE_CACHE_DIR": os.path.join(folder, "cache")}
    report = json.loads(run(sectile, "tune", "matmul", "--shape", "M=64,N=64,K=96", "--dtype", "f16", "--device", "virtual:sm_80",
                            "--candidates", "6", "--strategy", "random", "--quiet", "--json", **cache))[0]  # fmt: skip
    tuned = min((row for row in report["candidates"] if row["verdict"] == "good"), key=lambda row: row["median_us"])["config"]
    run(sectile, "cache", "export", os.path.join(project, "measured.json"), **cache)
    with open(os.path.join(project, "CMakeLists.txt"), "w") as out:
        out.write(CHOICES.replace("{source}", source))
    binary = os.path.join(folder, "choices_build")
    run(*configure(project, binary, compiler))
    run("cmake", "--build", binary)

    def tiles(text):
        return re.findall(r"\b(?:m|n|k)=\d+", text)

    def chosen(name, **environment):
        """The tiles of all calls; each call finds code."""
        lines = run(os.path.join(binary, name), "cuda:0", FAKE_CUDA_CAPABILITY="80", **environment).splitlines()
        assert [line for line in lines if "done" in line] == ["64 rows: done", "60 rows: done", "2000 rows: done"], lines
        (one,) = {tuple(tiles(line)) for line in lines if "done" not in line}
        return list(one)

    own = tiles(report["candidates"][0]["config"])
    assert tiles(tuned) != own, report
    assert chosen("own") == own
    assert chosen("tuned") == tiles(tuned)
    assert chosen("tuned", SECTILE_AUTOTUNE="off") == tiles(tuned)  # the bundle has nothing else

    # What the function refuses.
    project = os.path.join(folder, "project")
    os.mkdir(project)
    for words, says in (
        ("SOURCES kernels.cpp", "sectile_add_bundle(kernels): TARGETS is missing"),
        ("TARGETS sm_80", "sectile_add_bundle(kernels): SOURCES is missing"),
        ("SOURCES kernels.cpp TARGETS sm_80 EMBED FILE x", "sectile_add_bundle(kernels): a bundle is in the library (EMBED)"),
        ("SOURCES kernels.cpp TARGETS sm_80 HEADER x.h", "sectile_add_bundle(kernels): HEADER needs KERNELS"),
        ("ABC SOURCES kernels.cpp TARGETS sm_80", "sectile_add_bundle(kernels): there is no argument 'ABC'"),
    ):
        with open(os.path.join(project, "CMakeLists.txt"), "w") as out:
            out.write(OTHER_PROJECT.format(words=words))
        refused = attempt(*configure(project, os.path.join(folder, "refused"), compiler))
        assert refused.returncode and says in re.sub(r"\s+", " ", refused.stdout), refused.stdout
