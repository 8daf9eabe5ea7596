# Holds the backend against ggml's own for the CPU, by ggml's test-backend-ops: check.py SECTILE FOLDER [--device NAME] [--all]
# [--seconds LIMIT] [OPERATION...]. SECTILE is where Sectile is installed; what is fetched and built stays in FOLDER. For
# each operation it prints how many checks passed, and how many the backend or the CPU's refused. It fails where a check
# does, and where others passed or were refused than checks.txt says; --write writes that file. Operations with thousands of
# checks run some of them, with --all all of them. Without --device: the virtual GPU sm_90a.
import argparse
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import fetch_llama  # noqa: E402

CHECKS = os.path.join(HERE, "checks.txt")
# Of operations with many checks those whose parameters have this.
SOME = {
    "FLASH_ATTN_EXT": r"kv=113,nb=(1|35)",
    "MUL_MAT_ID": r"type_a=(f16|q4_0),.*n_mats=4|n_mats=8,.*amax=1000",
    "CONV_2D": r"type_kernel=f16,stride0=3,.*padding1=2",
}
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
RESULT = re.compile(r"([A-Z0-9_]+)\(.*\): (OK|FAIL|not supported)")


def run(*words, **options):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout[-4000:]}")
    return done.stdout


def build(sectile, folder):
    """The folder with the backend, llama.cpp's libraries and the programs. Throws CalledProcessError where llama.cpp cannot be
    fetched."""
    sources = fetch_llama.fetch(folder)
    built = os.path.join(folder, "build")
    run("cmake", "-G", "Ninja", "-S", HERE, "-B", built, "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={sectile}",
        f"-DLLAMA_CPP={sources}", "-DGGML_SECTILE_CHECK=ON", "-DBUILD_SHARED_LIBS=ON", "-DGGML_BACKEND_DL=ON",
        "-DGGML_NATIVE=OFF", "-DGGML_OPENMP=OFF")
    run("cmake", "--build", built, "--parallel", "2", "--target", "ggml-sectile", "ggml-cpu", "test-backend-ops", "logits")
    return os.path.join(built, "bin")


def checked(folder, device, operation, parameters, seconds):
    """(passed, refused) of an operation's checks, and what is wrong."""
    words = [os.path.join(folder, "test-backend-ops"), "-b", "Sectile0", "-o", operation]
    if parameters:
        words += ["-p", parameters]
    env = {**os.environ, "GGML_BACKEND_PATH": os.path.join(folder, "libggml-sectile.so"), "SECTILE_GGML_DEVICE": device}
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=env,
                              timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return (0, 0), [f"{operation}: more than {seconds} seconds"]
    lines = COLOURS.sub("", done.stdout).splitlines()
    found = [match[2] for match in map(RESULT.search, lines) if match and match[1] == operation]
    wrong = [line for line in lines if "FAIL" in line and operation + "(" in line]
    if done.returncode != 0 and not wrong:
        wrong = [f"{operation}: test-backend-ops ended with {done.returncode}", *lines[-5:]]
    return (found.count("OK"), found.count("not supported")), wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sectile")
    parser.add_argument("folder")
    parser.add_argument("--device", default="virtual:sm_90a")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("operations", nargs="*")
    options = parser.parse_intermixed_args()
    with open(CHECKS, encoding="utf-8") as file:
        rows = [line.split() for line in file if not line.startswith("#")]
    known = {name: (int(passed), int(refused)) for name, passed, refused in rows}
    folder = build(os.path.abspath(options.sectile), os.path.abspath(options.folder))
    failures = []
    for operation in options.operations or known:
        some = None if options.all else SOME.get(operation)
        found, wrong = checked(folder, options.device, operation, some, options.seconds)
        print(f"{operation:20} {found[0]:5} {found[1]:5}", *(["WRONG"] if wrong else []), flush=True)
        is_counted = not options.write and (some or operation not in SOME)
        if not wrong and is_counted and found != known.get(operation):
            wrong = [f"{operation}: checks.txt has {known.get(operation)} passed and refused, these are {found}"]
        known[operation] = found
        failures += wrong
    if options.write:
        with open(CHECKS, "w", encoding="utf-8") as file:
            file.write("# How many checks of test-backend-ops pass, and how many are refused: of check.py\n")
            file.writelines(f"{name:20} {passed:5} {refused:5}\n" for name, (passed, refused) in sorted(known.items()))
    print("\n".join(failures))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
