# examples/minilm against NumPy in float64 and Python's tokenizers, on a small random model and, with SECTILE_TEST_ALL, on the
# real one. Skipped where the package index is not reached. minilm_numpy_test.py EXAMPLE BUILD MINILM_COMPILES
import os
import subprocess
import sys

example, build, program = sys.argv[1:]
SKIPPED = 77  # ctest's word for it
PACKAGES = ["numpy>=1.24,<3", "tokenizers==0.23.3"]
# Characters whose categories have not changed since tokenizers made its tables.
STABLE = [range(1, 0x600), range(0x1E00, 0x2E43), range(0x3000, 0x3400), range(0xAC00, 0xAC40), range(0xF900, 0x10000)]


def has_packages(python):
    return os.path.exists(python) and subprocess.run([python, "-c", "import numpy, tokenizers"], capture_output=True,
                                                     check=False).returncode == 0


def environment():
    """The Python of an environment that has the packages; skips the test where they cannot be had."""
    folder = os.path.join(build, "minilm", "python")
    python = os.path.join(folder, "bin", "python")
    if not has_packages(python):
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        installed = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES],
                                   capture_output=True, text=True, check=False)
        if installed.returncode:
            print(f"pip cannot install {' '.join(PACKAGES)}:\n{installed.stderr}")
            sys.exit(SKIPPED)
    return python


if "SECTILE_MINILM_ENVIRONMENT" not in os.environ:
    # Itself again, in the environment.
    python = environment()
    os.execve(python, [python, *sys.argv], {**os.environ, "SECTILE_MINILM_ENVIRONMENT": "1"})

sys.path.insert(0, example)
import check  # noqa: E402
import fetch_model  # noqa: E402
import reference  # noqa: E402
import tiny_model  # noqa: E402

tiny = os.path.join(build, "minilm", "tiny")
tiny_model.write(tiny)
check.check_tokens(program, tiny, [f"a{chr(c)}b" for part in STABLE for c in part if chr(c) != "\n"], reference.longest(tiny))
for options in ([], ["--f32"], ["--f32", "--batch", "3"]):
    check.check(program, tiny, ["--device", "virtual:sm_90a", *options])
check.check(program, tiny, ["--device", "virtual:gfx942"])

if not os.environ.get("SECTILE_TEST_ALL"):
    print("the real model: only with ./dev test --all")
    sys.exit(0)
real = os.path.join(build, "minilm", "model")
try:
    fetch_model.fetch(real)
except subprocess.CalledProcessError as error:
    print(f"the real model cannot be fetched: {error}")
    sys.exit(SKIPPED)
check.check(program, real, ["--device", "virtual:sm_90a"])
