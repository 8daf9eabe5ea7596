# integrations/ggml on a virtual GPU: ggml's own checks of a backend, and small models in llama.cpp against the CPU's logits.
# It fetches llama.cpp and builds it: only with SECTILE_TEST_ALL=1, and where the package index is reached. ggml_test.py BUILD
# SOURCE
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "python"))
sys.path.append(os.path.dirname(HERE))
from environment import python_with  # noqa: E402
from roots import run, skip  # noqa: E402

build, source = (os.path.abspath(word) for word in sys.argv[1:3])
integration = os.path.join(source, "integrations/ggml")
folder = os.path.join(build, "ggml")
prefix = os.path.join(folder, "prefix")
if os.environ.get("SECTILE_TEST_ALL") != "1":
    skip("only with SECTILE_TEST_ALL=1")
sys.path.insert(0, integration)
import fetch_llama  # noqa: E402

try:
    fetch_llama.fetch(folder)
except subprocess.CalledProcessError as error:
    skip(f"llama.cpp cannot be fetched: {error}")
python = python_with(os.path.join(build, "python-gguf"), "numpy", "gguf==0.19.0")
run("cmake", "--install", build, "--prefix", prefix)
wrong = 0
for words in ([sys.executable, "-B", os.path.join(integration, "check.py"), prefix, folder],
              [python, "-B", os.path.join(integration, "check_models.py"), os.path.join(folder, "build/bin"),
               os.path.join(folder, "models")]):
    wrong |= subprocess.run(words, check=False).returncode
sys.exit(wrong)
