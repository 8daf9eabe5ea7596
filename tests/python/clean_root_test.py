# The wheel in an empty Debian 12, by the commands of the README: pip installs it with NumPy, its lines run, and so does the
# program. clean_root_test.py BUILD ROOT. It takes the network and root: `./dev test --all` runs it, where mmdebstrap is
# installed. SECTILE_WHEEL names a wheel that `./dev wheel` has made.
import glob
import os
import re
import shutil
import sys
import tempfile

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from roots import inside, needs_roots, run  # noqa: E402

build, root = map(os.path.abspath, sys.argv[1:])
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
CHECK = """
assert type(o) is np.ndarray and o.shape == q.shape
scores = q.astype(float) @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
scores[..., np.triu(np.ones(scores.shape[-2:], bool), 1)] = -np.inf
weights = np.exp(scores - scores.max(-1, keepdims=True))
error = np.abs(o - weights / weights.sum(-1, keepdims=True) @ v).max()
assert error < 1e-5, error
print("largest error", error)
"""


needs_roots()

wheel = os.environ.get("SECTILE_WHEEL")
if not wheel:
    (wheel,) = glob.glob(os.path.join(build, "dist", "*.whl"))
with open(os.path.join(root, "README.md")) as readme:
    (lines,) = (block for block in re.findall(r"```python\n(.*?)```", readme.read(), re.S) if "numpy" in block)
with tempfile.TemporaryDirectory() as folder:
    clean = os.path.join(folder, "root")
    run("mmdebstrap", "--variant=apt", "--include=ca-certificates,python3,python3-venv", "bookworm", clean)
    # The network is this machine's, and so are those whom it trusts.
    for file in (CERTIFICATES, "/etc/resolv.conf"):
        if os.path.exists(file):
            shutil.copyfile(file, clean + file)
    shutil.copy(wheel, clean + "/tmp")
    with open(clean + "/tmp/example.py", "w") as example:
        example.write(lines + CHECK)
    where = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    print(run(*inside(clean), "sh", "-eu", "-c", f"""
python3 -m venv /opt/try
/opt/try/bin/pip install --quiet --only-binary=:all: /tmp/{os.path.basename(wheel)} numpy
test ! -e /usr/lib/llvm-22
/opt/try/bin/python /tmp/example.py
/opt/try/bin/sectile demo --device virtual:sm_90a
""", env=where))  # fmt: skip
