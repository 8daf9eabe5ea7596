# The launch index: a second process launches without a trace, and never the wrong kernel.
# warm_start_test.py WARM_START PLUGIN DRIVER
import os
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from script import main

PROGRAM, PLUGIN, DRIVER = map(os.path.abspath, sys.argv[1:4])


def run(*words, program=PROGRAM, fails=False, **variables):
    completed = subprocess.run(
        [program, *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "SECTILE_CACHE_DIR": os.path.abspath("cache"), "SECTILE_LAUNCH_INDEX": "1", **variables},
    )
    assert completed.returncode == (2 if fails else 0), (words, completed.returncode, completed.stderr)
    said = dict(line.split("=", 1) for line in completed.stdout.splitlines())
    said["err"] = completed.stderr
    if not fails:
        assert said["right"] == "1", (words, said)
    return said


def traced(said):
    return said["contexts"] != "0"


def names(suffix=None):
    """Entries of the index, or of kernels."""
    found = [name for name in os.listdir("cache") if name != "lock"]
    return [name for name in found if (name.endswith(suffix) if suffix else "." not in name)]


def test_a_second_process_makes_no_context():
    for kernel in ("vector_add", "matmul", "function"):
        first = run(kernel)
        assert traced(first) and first["compiles"] == "1", first
        second = run(kernel)
        assert not traced(second) and second["compiles"] == "0" and second["disk"] == "1", second
        print(f"        {kernel}: {second['ms']} ms from main to the result")


def test_the_index_can_be_switched_off():
    for _ in range(2):
        assert traced(run("vector_add", SECTILE_LAUNCH_INDEX="0"))
    assert not names(".launch")


def test_configurations_and_specialisations_are_told_apart():
    for _ in range(2):
        said = [run("block", size) for size in (16, 32, 64)]
    assert not any(map(traced, said))
    assert traced(run("block", 256))
    assert traced(run("vector_add"))


def test_options_are_told_apart():
    run("vector_add")
    assert traced(run("vector_add", SECTILE_CHECKED="1"))
    assert traced(run("vector_add", SECTILE_DEBUG="0"))
    assert not traced(run("vector_add", SECTILE_CHECKED="1"))


def test_captures_are_traced_every_time():
    for kernel in ("captured", "capturing_function"):
        for value in (3, 4, 3):
            assert traced(run(kernel, value))
    assert not names(".launch")


def test_libraries_are_read_every_time():
    for value in (3, 4, 3):
        assert traced(run("library", value))
    assert not names(".launch")


def test_what_depends_on_a_global_is_found_out():
    # The trace of this kernel depends on what the index cannot know; it has to be told, or off.
    run("global", 3)
    for value in (4, 3):
        run("global", value, SECTILE_LAUNCH_INDEX="0")
    run("global", 3, SECTILE_LAUNCH_INDEX="check")
    said = run("global", 4, SECTILE_LAUNCH_INDEX="check", fails=True)
    assert "reads_global" in said["err"] and "SECTILE_LAUNCH_INDEX=0" in said["err"], said
    for name in names():
        os.remove(os.path.join("cache", name))
    run("global", 4)  # traced, as its code is gone: no error, and the index is put right
    run("global", 4, SECTILE_LAUNCH_INDEX="check")
    run("vector_add", SECTILE_LAUNCH_INDEX="check")
    assert traced(run("vector_add", SECTILE_LAUNCH_INDEX="check"))


def test_a_kernel_that_is_gone_is_compiled_again():
    run("vector_add")
    for name in names():
        os.remove(os.path.join("cache", name))
    again = run("vector_add")
    assert traced(again) and again["compiles"] == "1", again
    assert not traced(run("vector_add"))


def test_damaged_entries():
    run("vector_add")
    for kind in (".launch", None):
        (name,) = names(kind)
        path = os.path.join("cache", name)
        with open(path, "rb") as file:
            good = file.read()
        for damage in (good[: len(good) // 2], b"", good[:-1] + bytes([good[-1] ^ 1]), os.urandom(len(good))):
            with open(path, "wb") as file:
                file.write(damage)
            said = run("vector_add")
            assert traced(said) and "set aside" in said["err"], said
            assert not traced(run("vector_add"))


def test_an_entry_that_names_another_kernel():
    # As if two keys had one hash: the index must not take one kernel for the other.
    run("vector_add")
    (vector_add,) = names()
    run("matmul")
    (matmul,) = set(names()) - {vector_add}
    os.replace(os.path.join("cache", matmul), os.path.join("cache", vector_add))
    assert traced(run("vector_add"))
    assert not traced(run("vector_add"))


def copies_with(change, name, original=PROGRAM):
    """The program with its build ID changed; None where it has none."""
    with open(original, "rb") as file:
        image = bytearray(file.read())
    note = image.find(b"\x04\x00\x00\x00\x14\x00\x00\x00\x03\x00\x00\x00GNU\x00")
    if note < 0:
        return None
    change(image, note)
    with open(name, "wb") as file:
        file.write(image)
    os.chmod(name, 0o755)
    return os.path.abspath(name)


def other(image, note):
    image[note + 16] ^= 1


def none(image, note):
    image[note + 8] = 77  # another type of note


def test_another_build_of_the_program_is_traced():
    program = copies_with(other, "other")
    assert program, "the program has no build ID"
    run("vector_add")
    said = run("vector_add", program=program)
    assert traced(said) and said["disk"] == "1", said
    assert not traced(run("vector_add", program=program))
    assert len(names(".launch")) == 2


def test_an_update_of_llvm_or_mlir_compiles_anew():
    # A distribution's security update: another build under the same version and name.
    loaded = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
    run("vector_add")
    for library in ("libLLVM", "libMLIR"):
        ((name, path),) = {tuple(line.split()[0:3:2]) for line in loaded.splitlines() if library in line.split()[0]}
        os.mkdir(library)
        assert copies_with(other, os.path.join(library, name), path), library
        updated = {"LD_LIBRARY_PATH": os.path.abspath(library)}
        said = run("vector_add", **updated)
        assert said["compiles"] == "1", (library, said)
        assert run("vector_add", **updated)["compiles"] == "0"
    assert run("vector_add")["compiles"] == "0"


def test_a_program_without_a_build_id_is_traced_every_time():
    program = copies_with(none, "none")
    for _ in range(2):
        assert traced(run("vector_add", program=program))
    assert not names(".launch")


def test_sixteen_processes_compile_each_kernel_once():
    kernels = ["vector_add", "matmul", "function"]
    running = []
    for i in range(16):
        words = "; ".join(f"'{PROGRAM}' {kernels[(i + k) % 3]}" for k in range(3))
        running.append(
            subprocess.Popen(
                ["/bin/sh", "-c", words],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "SECTILE_CACHE_DIR": os.path.abspath("cache")},
            )
        )
    said = "".join(process.communicate()[0] for process in running)
    assert said.count("right=1") == 48, said
    compiles = sum(int(line.split("=")[1]) for line in said.splitlines() if line.startswith("compiles="))
    assert compiles == 3, compiles
    assert len(names()) == 3 and len(names(".launch")) == 3, os.listdir("cache")


def test_libraries_that_come_later_count_for_their_own_kernels():
    assert traced(run("plugin", PLUGIN))
    assert not traced(run("plugin", PLUGIN))
    assert traced(run("plugin", copies_with(other, "other.so", PLUGIN)))
    assert traced(run("vector_add"))
    for library in (DRIVER, copies_with(other, "driver.so", DRIVER), copies_with(none, "none.so", DRIVER)):
        assert library and not traced(run("plugin", library)), library


def test_a_hash_of_the_code_needs_no_trace():
    first = run("hash")
    assert traced(first) and not names() and len(first["hash"]) == 32, first
    second = run("hash")
    assert not traced(second) and second["hash"] == first["hash"], second
    assert run("hash", SECTILE_LAUNCH_INDEX="0")["hash"] == first["hash"]
    run("vector_add")
    assert not traced(run("vector_add"))
    assert not traced(run("hash"))


main(globals())
