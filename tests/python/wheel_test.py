# The wheel in an environment of its own: it installs, the README's lines run on it, and the program is there.
# wheel_test.py BUILD ROOT
import glob
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(HERE)
from environment import python_with  # noqa: E402

build, root = map(os.path.abspath, sys.argv[1:])
(wheel,) = glob.glob(os.path.join(build, "dist", "*.whl"))
size = os.path.getsize(wheel)
print(f"{os.path.basename(wheel)}: {size / 1e6:.1f} MB")
assert size < 45e6, size

python = python_with(os.path.join(build, "python-wheel"), "numpy")
folder = os.path.dirname(python)


def output(*command, **how):
    done = subprocess.run(command, capture_output=True, text=True, **how)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
output(*install, "--force-reinstall", wheel)
output(python, "-m", "pip", "--disable-pip-version-check", "check")

CHECK = """
assert type(o) is np.ndarray and o.shape == q.shape and lse.shape == q.shape[:3]
scores = q.astype(float) @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
scores[..., np.triu(np.ones(scores.shape[-2:], bool), 1)] = -np.inf
weights = np.exp(scores - scores.max(-1, keepdims=True))
error = np.abs(o - weights / weights.sum(-1, keepdims=True) @ v).max()
assert error < 1e-5, error
assert sectile.__file__.startswith(sys.prefix), sectile.__file__
print(sectile.__version__, "largest error", error)
"""
with tempfile.TemporaryDirectory() as home:
    # Nothing of this machine's settings, no cache, no library but the wheel's.
    where = {"HOME": home, "PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": home}
    for page in ("README.md", "python/README.md", "docs/python.md"):
        with open(os.path.join(root, page)) as file:
            lines = [block for block in re.findall(r"```python\n(.*?)```", file.read(), re.S) if "numpy" in block]
        assert len(lines) == 1 and lines[0].count("\n") == 3, (page, lines)
        print(page, output(python, "-I", "-c", "import sys\n" + lines[0] + CHECK, env=where, cwd=home).strip())
    assert "LLVM" in output(os.path.join(folder, "sectile"), "--version", env=where)
    refused = subprocess.run([os.path.join(folder, "sectile"), "run"], env=where, capture_output=True)
    assert refused.returncode == 2, refused  # the program's own status
