# What the papers of the project say of it holds: versions, packages, parts of others, workflows' commands.
#   packaging_test.py BUILD SOURCE
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile

build, source = sys.argv[1:]


def text(name):
    with open(os.path.join(source, name)) as file:
        return file.read()


def run(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def source_package(package):
    return run("dpkg-query", "-W", "-f", "${source:Package}", package)


version = re.search(r"^project\(Sectile VERSION ([\d.]+)", text("CMakeLists.txt"), re.M)[1]
assert re.match(r"sectile \(([^)]+)\)", text("debian/changelog"))[1] == version, "debian/changelog"
assert f"\nversion: {version}\n" in text("CITATION.cff"), "CITATION.cff"
abi = ".".join(version.split(".")[:2]) if version.startswith("0.") else version.split(".")[0]
control = text("debian/control")
packages = re.findall(r"^Package: (\S+)", control, re.M)
for library in ["rt", "vgpu", "kernels"]:
    assert f"libsectile-{library}{abi}" in packages, packages
assert f"libsectile{abi}" in packages, packages

# ./dev installs what a package's build needs, and the other way round, but for the tests.
dev = text("dev")
ours = set(re.search(r"build_packages=\((.*?)\)", dev, re.S)[1].split())
tests_alone = {"ccache", "g++", "libgtest-dev", "libgmock-dev", "libbenchmark-dev", "openmpi-bin", "python3-dev",
               "python3-venv"}
needed = re.search(r"^Build-Depends:\n(.*?)^\S", control, re.S | re.M)[1]
needed = {re.sub(r"[ :].*", "", line.strip().rstrip(",")) for line in needed.splitlines()}
assert needed - {"debhelper-compat"} == ours - tests_alone, (needed ^ (ours - tests_alone))

# Every file that an install puts there is in a package, as debhelper wants it: its last step would fail else.
patterns = [line for name in os.listdir(os.path.join(source, "debian")) if name.endswith(".install")
            for line in text(f"debian/{name}").split("\n") if line]
with tempfile.TemporaryDirectory() as folder:
    run("cmake", "--install", build, "--prefix", folder)
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.relpath(os.path.join(place, name), folder)
            path = re.sub("^lib/", "lib/x86_64-linux-gnu/", path)
            parents = ["usr/" + path[: at.start()] for at in re.finditer("/|$", path)]
            # debian/rules takes away or moves these.
            packaged = path.startswith("share/sectile/") or path.startswith("share/man/") or any(
                fnmatch.fnmatch(parent, pattern) for parent in parents for pattern in patterns)  # fmt: skip
            assert packaged, f"no package has usr/{path}: debian/*.install"

# Parts of others: every library that ours need is in the table.
for binary, how in [("packages", {"linked", "contained"}), ("wheel", {"contained"})]:
    document = json.loads(run(sys.executable, os.path.join(source, "packaging/parts.py"), "spdx", binary, version))
    identities = {package["SPDXID"] for package in document["packages"]}
    assert all(r["relatedSpdxElement"] in identities for r in document["relationships"])
table = [[cell.strip() for cell in line.split("|")] for line in text("THIRD-PARTY.md").splitlines()
         if line.startswith("| ") and not line.startswith("| ---")][1:]
known = {source_package(row[2]) for row in table}
for library in ["libsectile.so", "libsectile_rt.so", "libsectile_vgpu.so", "libsectile_kernels.so"]:
    for name, path in re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", os.path.join(build, "lib", library)), re.M):
        direct = run("readelf", "-d", os.path.join(build, "lib", library))
        if f"[{name}]" not in direct or re.match(r"libsectile|libc\.|libm\.|ld-linux", name):
            continue
        path = os.path.realpath(path)
        owner = None
        for place in [path, re.sub("^/usr", "", path), "/usr" + path]:  # /lib is /usr/lib
            found = subprocess.run(["dpkg", "-S", place], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            owner = owner or found.stdout.split(": ")[0].split(",")[0]
        assert owner, path
        assert source_package(owner) in known, f"THIRD-PARTY.md does not have {name} ({owner}), which {library} needs"

# Workflows and images use commands and packages that there are.
commands = set(re.findall(r"^  ([a-z]+)[ \[]", dev.split("usage: ./dev")[1].split("END")[0], re.M))
for folder, _, names in os.walk(os.path.join(source, ".github")):
    for name in names:
        with open(os.path.join(folder, name)) as file:
            for command in re.findall(r"\./dev ([a-z]+)", file.read()):
                assert command in commands, f"{name}: ./dev {command}"
        matrix = re.search(r"command: \[(.*)\]", open(os.path.join(folder, name)).read())
        for command in matrix[1].split(", ") if matrix else []:
            assert command.split()[0] in commands, f"{name}: {command}"
for package in re.findall(r"dist/(lib\w+(?:-\w+)*|sectile)[*_0]", text("Dockerfile")):
    assert any(name.startswith(package) for name in packages), f"Dockerfile: {package}"
