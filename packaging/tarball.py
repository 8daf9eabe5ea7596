# Makes the tarball for any Linux with glibc 2.34: the library with LLVM inside and its C interface, the program, the pages
# and licences. Files with the same contents give the same tarball: dates and owners are fixed, the order is that of names.
#   tarball.py --version V --library FILE --program FILE --headers FOLDER... --into FOLDER
import argparse
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PKGCONFIG = """# What pkg-config says of this folder, wherever it lies.
prefix=${{pcfiledir}}/../..

Name: Sectile
Description: GPU kernels that are compiled when they are called, from C
Version: {version}
Cflags: -I${{prefix}}/include
Libs: -L${{prefix}}/lib -lsectile
"""


def headers_of(header, folders):
    """The headers of ours that one includes, and those that these include, by name."""
    found, rest = {}, [header]
    while rest:
        for name in re.findall(r"#\s*include <(sectile/[^>]+)>", rest.pop().read_text()):
            if name not in found:
                (found[name],) = [folder / name for folder in map(pathlib.Path, folders) if (folder / name).exists()]
                rest.append(found[name])
    return found


def files(version, library, program, headers):
    """Contents by path; bytes, or a path of a file."""
    found = {"bin/sectile": program, "lib/libsectile.so": library, "include/sectile.h": ROOT / "capi/include/sectile.h",
             "lib/pkgconfig/sectile.pc": PKGCONFIG.format(version=version).encode(),
             "share/doc/sectile/softmax.c": ROOT / "examples/c/softmax.c"}  # fmt: skip
    found |= {f"include/{name}": path for name, path in headers_of(ROOT / "capi/include/sectile.h", headers).items()}
    for page in ("LICENSE", "README.md", "THIRD-PARTY.md", "docs/c.md", "docs/command-line.md"):
        found[f"share/doc/sectile/{page}"] = ROOT / page
    parts = [sys.executable, ROOT / "packaging/parts.py"]
    spdx = subprocess.run([*parts, "spdx", "wheel", version], check=True, stdout=subprocess.PIPE).stdout
    found["share/doc/sectile/sectile.spdx.json"] = spdx
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*parts, "licences", "wheel", folder], check=True, stdout=subprocess.DEVNULL)
        for name in os.listdir(folder):
            found[f"share/doc/sectile/licenses/{name}"] = (pathlib.Path(folder) / name).read_bytes()
    return found


def make(version, library, program, headers, into):
    name = f"sectile-{version}-x86_64-linux"
    os.makedirs(into, exist_ok=True)
    path = os.path.join(into, name + ".tar.xz")
    with tarfile.open(path + ".part", "w:xz", preset=6) as tar:
        for place, content in sorted(files(version, library, program, headers).items()):
            data = content if isinstance(content, bytes) else pathlib.Path(content).read_bytes()
            about = tarfile.TarInfo(f"{name}/{place}")  # of 1970, and root's
            about.size = len(data)
            about.mode = 0o755 if place.startswith(("bin/", "lib/lib")) else 0o644
            about.uname = about.gname = "root"
            tar.addfile(about, io.BytesIO(data))
    os.replace(path + ".part", path)
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for word in ("version", "library", "program", "into"):
        parser.add_argument("--" + word, required=True)
    parser.add_argument("--headers", required=True, nargs="+")
    made = make(**vars(parser.parse_args()))
    print(f"{made}: {os.path.getsize(made) / 1e6:.1f} MB")
