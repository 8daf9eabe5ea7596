# examples/decoder against NumPy in float64, token by token, on small random models; with SECTILE_TEST_ALL all of them in
# every way, and with longer texts. Skipped where the package index is not reached. decoder_numpy_test.py EXAMPLE BUILD DECODER_COMPILES
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "python"))
example, build, program = (os.path.abspath(word) for word in sys.argv[1:4])

if sys.argv[4:] != ["inside"]:
    from environment import python_with

    python = python_with(os.path.join(build, "python-decoder"), "numpy")
    sys.exit(subprocess.run([python, "-B", __file__, example, build, program, "inside"]).returncode)

sys.path.insert(0, example)
import check  # noqa: E402
import tiny_model  # noqa: E402

everything = bool(os.environ.get("SECTILE_TEST_ALL"))
folder = os.path.join(build, "decoder")
models = {kind: os.path.join(folder, kind) for kind in tiny_model.KINDS}
# Texts that join and leave, in chunks of prompts that end anywhere, in a cache that is too small for all of them.
crowded = ["--device", "virtual:sm_80", "--dtype", "f32", "--batch", "3", "--batch-tokens", "24", "--page", "16", "--pages", "10"]
for kind, path in models.items():
    tiny_model.write(kind, path)
    # The others are llama's layers with a bias or a norm more.
    own_layers = kind in ("llama", "qwen3_moe", "gemma3_text")
    if everything or own_layers:
        check.check(program, path, crowded)
        # Of experts' texts in bf16 rounding leaves a fifth to compare; those on gfx1100 below are such.
        if everything or kind != "qwen3_moe":
            check.check(program, path, ["--device", "virtual:sm_90a"])
    if everything or not own_layers:
        check.check(program, path, ["--device", "virtual:sm_90a", "--dtype", "f32"], few=not everything)
check.check(program, models["llama"], ["--device", "virtual:gfx942", "--dtype", "f16", "--temperature", "0.8"], few=not everything)
check.check(program, models["qwen3_moe"], ["--device", "virtual:gfx1100", "--page", "32"])

# Other positions, other heads, weights in several files.
for name, changes in (("yarn", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}}),
                      ("linear", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
                      ("biases", {"attention_bias": True, "mlp_bias": True}),
                      ("gelu", {"hidden_act": "gelu"}),
                      ("mistral", {"model_type": "mistral", "sliding_window": 20, "layer_types": ["sliding_attention"] * 2}),
                      ("heads", {"num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 16, "rope_scaling": None})):
    path = os.path.join(folder, name)
    tiny_model.write("llama", path, seed=5, files=3 if name == "heads" else 1, **changes)
    check.check(program, path, ["--device", "virtual:sm_90a", "--dtype", "f32"], few=not everything)

# Gemma's wide heads, one head of the cache for all, windows that end within pages, as wide as one, and of one key.
for width, window, device in ((256, 24, "virtual:sm_90a"), (256, 16, "virtual:gfx942"), (64, 1, "virtual:gfx1100")):
    path = os.path.join(folder, f"gemma{width}_{window}")
    tiny_model.write("gemma3_text", path, seed=3, head_dim=width, num_key_value_heads=1, sliding_window=window)
    check.check(program, path, ["--device", device, "--dtype", "f32", "--page", "16", "--batch", "4"], few=not everything)
    if everything:
        check.check(program, path, ["--device", device, "--page", "16"])
