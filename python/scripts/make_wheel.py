# Makes the wheel: a zip file with the package, the library that has LLVM inside and the program beside it. Nothing but
# Python itself is needed for it. Also what `pip wheel` and `pip install` call in this folder (PEP 517).
#   make_wheel.py --version V --package FOLDER --library FILE --program FILE --into FOLDER
import argparse
import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(HERE)
# The module keeps to Python's stable interface from 3.10 on, the library to glibc 2.34.
TAG = "cp310-abi3-manylinux_2_34_x86_64"


def project():
    import tomllib  # from Python 3.11 on

    with open(os.path.join(HERE, "pyproject.toml"), "rb") as file:
        return tomllib.load(file)["project"]


def metadata(version):
    told = project()
    with open(os.path.join(HERE, told["readme"]), encoding="utf-8") as file:
        readme = file.read()
    lines = ["Metadata-Version: 2.4", f"Name: {told['name']}", f"Version: {version}", f"Summary: {told['description']}",
             f"License-Expression: {told['license']}", "License-File: LICENSE", f"Requires-Python: {told['requires-python']}"]
    lines += [f"Classifier: {line}" for line in told["classifiers"]]
    return "\n".join(lines + ["Description-Content-Type: text/markdown", "", readme])


def entry_points():
    scripts = project()["scripts"]
    return "[console_scripts]\n" + "".join(f"{name} = {place}\n" for name, place in scripts.items())


class Wheel:
    """Files with the same contents give the same wheel: dates are fixed, the order is that of the names."""

    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, data, runs=False):
        about = zipfile.ZipInfo(name)  # of 1980-01-01
        about.compress_type = zipfile.ZIP_DEFLATED
        about.external_attr = (0o100755 if runs else 0o100644) << 16
        self.zip.writestr(about, data, compresslevel=9)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}\n")

    def add_file(self, name, path):
        with open(path, "rb") as file:
            self.add(name, file.read(), runs=os.access(path, os.X_OK))

    def close(self, name):
        self.record.append(f"{name},,\n")
        record = "".join(self.record).encode()
        self.record = []
        self.add(name, record)
        self.zip.close()


def make(version, package, library, program, into):
    about = f"sectile-{version}.dist-info"
    name = f"sectile-{version}-{TAG}.whl"
    os.makedirs(into, exist_ok=True)
    unfinished = os.path.join(into, name + ".part")
    wheel = Wheel(unfinished)
    for file in sorted(os.listdir(package)):
        if file.endswith((".py", ".pyi", ".so", ".typed")):
            wheel.add_file(f"sectile/{file}", os.path.join(package, file))
    wheel.add_file("sectile/bin/sectile", program)
    wheel.add_file("sectile/lib/libsectile.so", library)
    wheel.add(f"{about}/METADATA", metadata(version).encode())
    wheel.add(f"{about}/WHEEL", f"Wheel-Version: 1.0\nGenerator: sectile\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode())
    wheel.add(f"{about}/entry_points.txt", entry_points().encode())
    wheel.add_file(f"{about}/licenses/LICENSE", os.path.join(ROOT, "LICENSE"))
    # What of others is inside: a list (PEP 770) and the licences.
    parts = [sys.executable, os.path.join(ROOT, "packaging", "parts.py")]
    wheel.add(f"{about}/sboms/sectile.spdx.json", subprocess.run([*parts, "spdx", "wheel", version], check=True, stdout=subprocess.PIPE).stdout)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*parts, "licences", "wheel", folder], check=True, stdout=subprocess.DEVNULL)
        for file in sorted(os.listdir(folder)):
            wheel.add_file(f"{about}/licenses/{file}", os.path.join(folder, file))
    wheel.close(f"{about}/RECORD")
    os.replace(unfinished, os.path.join(into, name))
    return name


# What pip calls.
def get_requires_for_build_wheel(config_settings=None):
    return []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    build = os.path.join(ROOT, "build-release")
    if not os.path.exists(os.path.join(build, "build.ninja")):
        subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True, stdout=sys.stderr)
    subprocess.run(["cmake", "--build", build, "--target", "sectile_wheel"], check=True, stdout=sys.stderr)
    made = [name for name in os.listdir(os.path.join(build, "dist")) if name.endswith(TAG + ".whl")]
    newest = max(made, key=lambda name: os.path.getmtime(os.path.join(build, "dist", name)))
    shutil.copy(os.path.join(build, "dist", newest), wheel_directory)
    return newest


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for word in ("version", "package", "library", "program", "into"):
        parser.add_argument("--" + word, required=True)
    words = vars(parser.parse_args())
    made = os.path.join(words["into"], make(**words))
    print(f"{made}: {os.path.getsize(made) / 1e6:.1f} MB")
