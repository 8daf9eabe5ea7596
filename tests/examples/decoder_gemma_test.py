# examples/decoder with Gemma 3 270M against llama.cpp on the CPU, with SECTILE_TEST_ALL; without it, what from_gguf.py makes of a
# small random file. Skipped where the package index is not reached.
# decoder_gemma_test.py EXAMPLE BUILD DECODER_COMPILES
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "python"))
example, build, program = (os.path.abspath(word) for word in sys.argv[1:4])
everything = bool(os.environ.get("SECTILE_TEST_ALL"))

if sys.argv[4:] != ["inside"]:
    from environment import python_with

    # llama.cpp is built from source, for any machine: a quarter of an hour on two cores.
    os.environ["CMAKE_ARGS"] = "-DGGML_NATIVE=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TESTS=OFF"
    packages = ["numpy", "gguf==0.19.0"]
    if everything:
        packages.append("llama-cpp-python==0.3.36")
    python = python_with(os.path.join(build, "python-gguf" + "-llama" * everything), *packages, only_binary=not everything)
    sys.exit(subprocess.run([python, "-B", __file__, example, build, program, "inside"]).returncode)

sys.path.insert(0, example)
import check  # noqa: E402
import fetch_gemma  # noqa: E402
import from_gguf  # noqa: E402
import gguf  # noqa: E402
import numpy  # noqa: E402
import reference  # noqa: E402
import tiny_model  # noqa: E402

folder = os.path.join(build, "decoder")
SM90 = ["--device", "virtual:sm_90a"]


def write_gguf(path, model, quantised, **changes):
    """The small model as llama.cpp's converter writes it: its names, 1 + w for norms, the window's pattern left out."""
    with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    values = {"block_count": config["num_hidden_layers"], "embedding_length": config["hidden_size"],
              "feed_forward_length": config["intermediate_size"], "context_length": config["max_position_embeddings"],
              "attention.head_count": config["num_attention_heads"], "attention.head_count_kv": config["num_key_value_heads"],
              "attention.key_length": config["head_dim"], "attention.value_length": config["head_dim"],
              "attention.sliding_window": config["sliding_window"], "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
              "rope.freq_base": config["rope_theta"], **changes}
    writer = gguf.GGUFWriter(path, values.pop("architecture", "gemma3"))
    for name, value in values.items():
        kind = {float: gguf.GGUFValueType.FLOAT32, int: gguf.GGUFValueType.UINT32, str: gguf.GGUFValueType.STRING}[type(value)]
        writer.add_key_value("gemma3." + name, value, kind)
    writer.add_eos_token_id(79)
    names = {there: here for here, there in from_gguf.PARTS.items()}
    whole = {there: here for here, there in from_gguf.WHOLE.items()}
    for name, array in reference.read_folder(model).items():
        words = name.split(".")
        here = whole.get(name) or f"blk.{words[2]}.{names['.'.join(words[3:-1])]}.weight"
        if here.endswith("norm.weight"):
            writer.add_tensor(here, (array + 1).astype(numpy.float32))
        else:
            kind = gguf.GGMLQuantizationType.Q8_0 if quantised and array.ndim == 2 else gguf.GGMLQuantizationType.F32
            writer.add_tensor(here, gguf.quants.quantize(array.astype(numpy.float32), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def small_files():
    model, path, made = (os.path.join(folder, name) for name in ("gguf_model", "small.gguf", "gguf_made"))
    # As many layers as two periods of windows and one more; what the file cannot say has llama.cpp's values.
    kinds = ["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(13)]
    tiny_model.write("gemma3_text", model, seed=4, num_hidden_layers=13, layer_types=kinds, rope_local_base_freq=10000.0,
                     query_pre_attn_scalar=32, rope_theta=1e6)
    write_gguf(path, model, quantised=False)
    from_gguf.convert(path, made)
    with open(os.path.join(model, "config.json"), encoding="utf-8") as a, open(os.path.join(made, "config.json"), encoding="utf-8") as b:
        wanted, found = json.load(a), json.load(b)
    for name, value in found.items():
        if name == "rms_norm_eps":
            assert abs(value - wanted[name]) < 1e-10
        elif name == "eos_token_id":
            assert value == [79]
        else:
            assert value == wanted.get(name), (name, value, wanted.get(name))
    wanted, found = reference.read_folder(model), reference.read_folder(made)
    assert wanted.keys() == found.keys()
    for name, array in wanted.items():
        assert abs(found[name] - array).max() < 2e-7, name
    assert reference.Decoder(made).config["model_type"] == "gemma3_text"

    # Quantised weights: the same in f32 in both files that are made.
    plain = os.path.join(folder, "plain.gguf")
    write_gguf(path, model, quantised=True)
    from_gguf.convert(path, made, plain)
    rounded = reference.read_folder(made)
    apart = [abs(rounded[name] - array).max() / abs(array).max() for name, array in wanted.items() if array.ndim == 2]
    assert 1e-3 < max(apart) < 1e-2, apart
    again = os.path.join(folder, "gguf_again")
    from_gguf.convert(plain, again)
    for name, array in reference.read_folder(again).items():
        assert (rounded[name] == array).all(), name
    with open(os.path.join(again, "config.json")) as a, open(os.path.join(made, "config.json")) as b:
        assert a.read() == b.read()
    check.check(program, made, [*SM90, "--dtype", "f32", "--batch", "4"], few=True)

    for says, changes in (("architecture qwen3", {"architecture": "qwen3"}), ("scaled by yarn", {"rope.scaling.type": "yarn"}),
                          ("other widths", {"attention.value_length": 16}), ("parts of heads", {"rope.dimension_count": 16})):
        write_gguf(path, model, quantised=False, **changes)
        try:
            from_gguf.convert(path, made)
        except from_gguf.Unsupported as error:
            assert says in str(error), (says, error)
        else:
            raise AssertionError(f"{changes} were taken")


small_files()
if not everything:
    print("the real model: only with ./dev test --all")
    sys.exit(0)
import check_llama  # noqa: E402

real = os.path.join(folder, "gemma")
plain = os.path.join(real, "f32.gguf")
try:
    quantised = fetch_gemma.fetch(real)
except subprocess.CalledProcessError as error:
    print(f"the real model cannot be fetched: {error}")
    sys.exit(77)
if not os.path.exists(os.path.join(real, "config.json")):
    from_gguf.convert(quantised, real, plain)
small = ["--batch", "4", "--batch-tokens", "32", "--context", "64"]
texts = check_llama.TEXTS[:2]
(equal, count), _ = check_llama.check_texts(program, real, [plain, quantised], [*SM90, "--dtype", "f32", *small], texts, 3)
assert equal == count, (equal, count)
# Where two tokens are nearly equally likely, rounding to bf16 decides.
check_llama.check_texts(program, real, [plain], [*SM90, *small], texts, 3)
