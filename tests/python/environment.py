# Python environments for the tests of the package: made under the build folder, once, with what a test needs from the
# package index. A test is skipped, with the reason, where that cannot be reached.
import os
import subprocess
import sys

SKIPPED = 77


def python_with(folder, *packages, only_binary=True):
    """The interpreter of an environment that has these packages (PACKAGE or PACKAGE>=VERSION)."""
    python = os.path.join(folder, "bin", "python")
    done = os.path.join(folder, "packages")
    wanted = "\n".join(packages)
    if os.path.exists(done) and open(done).read() == wanted:
        return python
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", folder], capture_output=True, text=True)
    if made.returncode == 0:
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]
        made = subprocess.run(command + ["--only-binary=:all:"] * only_binary + list(packages), capture_output=True, text=True)
    if made.returncode != 0:
        print(f"skipped: there is no environment with {', '.join(packages)}: {(made.stderr or made.stdout).strip()[-500:]}")
        sys.exit(SKIPPED)
    with open(done, "w") as file:
        file.write(wanted)
    return python


def run_in(python, script, *arguments, library=None, package=None):
    """Runs a test script in an environment, on the package of the build tree; ends with its status."""
    env = {word: value for word, value in os.environ.items() if not word.startswith(("PYTHON", "SECTILE_"))}
    if library:
        env["SECTILE_LIBRARY"] = library
    if package:
        env["PYTHONPATH"] = package
    for word in ("SECTILE_TEST_ALL", "SECTILE_VIRTUAL_OPT"):
        env[word] = os.environ.get(word, "")
    sys.exit(subprocess.run([python, "-B", script, *arguments], env=env).returncode)
