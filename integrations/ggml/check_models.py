# Holds whole models in llama.cpp, all layers of which are this backend's, against llama.cpp on the CPU: check_models.py BIN
# FOLDER [--device NAME]. BIN is what check.py has built; small random models are written into FOLDER. Needs gguf and numpy.
import argparse
import os
import subprocess
import sys

import numpy
import tiny_models

# (architecture, type, FLASH_ATTN_EXT). The CPU computes the same numbers as f32: with quantised weights it rounds what it
# multiplies by them to 8 bits, which moves logits by up to 0.7.
MODELS = [("llama", "f16", 0), ("llama", "f16", 1), ("qwen2", "q8_0", 0), ("qwen3", "q4_0", 1), ("qwen3moe", "f16", 1),
          ("gemma3", "f32", 1), ("gemma3", "bf16", 0)]
# How far a logit may be from those, where the largest are 8. Sectile decodes quantised weights to bf16.
BOUNDS = {"f32": 0.05, "f16": 0.06, "bf16": 0.2, "q8_0": 0.3, "q4_0": 0.3}


def logits(binaries, model, layers, attention, path, device):
    env = {**os.environ, "SECTILE_GGML_DEVICE": device, "SECTILE_GGML_EXPLAIN": "1"}
    env["GGML_BACKEND_PATH"] = os.path.join(binaries, "libggml-sectile.so" if layers else "libggml-cpu.so")
    done = subprocess.run([os.path.join(binaries, "logits"), model, str(layers), str(attention), path], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", env=env, check=False)
    assert done.returncode == 0, (model, layers, done.returncode, done.stdout[-3000:])
    # Nothing was left to the CPU but the lookup of tokens, and nothing was refused.
    assert not layers or ("offloaded 4/4 layers" in done.stdout and "is refused" not in done.stdout), done.stdout[-3000:]
    return numpy.fromfile(path, numpy.float32).reshape(11, -1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries")
    parser.add_argument("folder")
    parser.add_argument("--device", default="virtual:sm_90a")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    wrong = 0
    path = os.path.join(options.folder, "logits")
    for architecture, kind, attention in MODELS:
        models = [os.path.join(options.folder, name) for name in ("model.gguf", "decoded.gguf")]
        for model, decoded in zip(models, (False, True)):
            tiny_models.write(architecture, kind, model, decoded)
        found = logits(options.binaries, models[0], 99, attention, path, options.device)
        on_cpu = logits(options.binaries, models[1], 0, attention, path, options.device)
        apart = numpy.abs(on_cpu - found).max()
        is_right = apart <= BOUNDS[kind]
        print(f"{architecture:10} {kind:5} {attention} largest logit {numpy.abs(on_cpu).max():.3f}, largest difference {apart:.4f}",
              "" if is_right else "WRONG", flush=True)
        wrong += not is_right
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
