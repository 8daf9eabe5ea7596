# examples/decoder on small random models: its texts do not depend on the batch, pages or evictions, its bundle has the code of
# all steps, it needs no LLVM, and what is wrong is refused in one sentence.
# decoder_test.py EXAMPLE DECODER DECODER_COMPILES SECTILE FAKE_CUDA
import functools
import json
import os
import pathlib
import re
import sys

import programs
from programs import output

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import script  # noqa: E402

example, decoder, compiles, sectile, _ = sys.argv[1:]
sys.path.insert(0, example)
import tiny_model  # noqa: E402

SM90 = ("--device", "virtual:sm_90a")
# Lengths of the prompts and of what follows them: texts begin and end at different times.
LENGTHS = [(3, 14), (30, 16), (1, 14), (17, 1), (65, 4), (8, 8)]
PROMPTS = "".join(f"{' '.join(str((7 * i + 13 * j) % 80) for j in range(length))} / {wanted}\n"
                  for i, (length, wanted) in enumerate(LENGTHS))

refused = functools.partial(programs.refused, name="decoder", program=compiles)


def texts(*options, program=compiles, text=PROMPTS):
    """The lines of texts, and the numbers of steps, of those with plans, and of evictions."""
    *lines, stats = output(program, "model", *SM90, "--stats", *options, text=text).splitlines()
    return lines, [int(word) for word in re.fullmatch(r"(\d+) steps, (\d+) with plans, (\d+) evictions", stats).groups()]


def test_texts_do_not_depend_on_the_batch():
    for kind, *draws in (("llama", "--temperature", "1", "--top-k", "20", "--seed", "5"), ("qwen3_moe",), ("gemma3_text",)):
        tiny_model.write(kind, "model")
        options = ("--dtype", "f32", *draws)
        alone, (steps, planned, evictions) = texts(*options, "--batch", "1")
        # Each text of n tokens takes n steps.
        assert steps == sum(wanted for _, wanted in LENGTHS) and planned == evictions == 0, (steps, planned, evictions)
        assert [len(line.split()) for line in alone] == [wanted for _, wanted in LENGTHS]
        # What the batcher makes of them is the same for all kinds.
        if kind == "llama" or os.environ.get("SECTILE_TEST_ALL") == "1":
            together, (fewer, planned, evictions) = texts(*options, "--batch", "8")
            assert together == alone and fewer == max(wanted for _, wanted in LENGTHS) and evictions == 0
            assert planned > 0, "short texts beside a long one"
        # Prompts in pieces of up to 16 tokens, and pages for little more than the longest text.
        pieces, (_, _, evictions) = texts(*options, "--batch", "5", "--batch-tokens", "16", "--page", "4", "--pages", "18")
        assert pieces == alone and evictions > 0, (pieces, alone, evictions)


def test_draws_follow_the_seed():
    tiny_model.write("llama", "model")
    prompt = "5 6 7 / 30\n" * 2
    drawn = [texts("--temperature", "1", "--seed", seed, text=prompt)[0] for seed in ("0", "0", "1")]
    assert drawn[0] == drawn[1] and drawn[0][0] != drawn[0][1], drawn
    assert drawn[2][0] == drawn[0][1], "the second prompt has the next seed"
    greedy = texts(text=prompt)[0]
    assert greedy[0] == greedy[1]
    for options in (("--temperature", "0"), ("--temperature", "1", "--top-k", "1"), ("--temperature", "1", "--top-p", "0")):
        assert texts(*options, text=prompt)[0] == greedy, options


def test_texts_end_at_stops():
    tiny_model.write("llama", "model")
    text = texts("--dtype", "f32", text="5 6 7 / 30\n")[0][0].split()
    stop = int(text[10])
    for stops in (stop, [79, stop]):
        tiny_model.write("llama", "model", eos_token_id=stops)
        assert texts("--dtype", "f32", text="5 6 7 / 30\n")[0][0].split() == text[: text.index(str(stop)) + 1]


def test_a_bundle_has_the_code_of_every_step():
    small = ("--batch", "3", "--batch-tokens", "48", "--context", "128")
    # Llama's steps are those of the others without experts and windows.
    plain = ("llama",) if os.environ.get("SECTILE_TEST_ALL") == "1" else ()
    for kind in (*plain, "qwen3_moe", "gemma3_text"):
        tiny_model.write(kind, "model")
        output(compiles, "model", *SM90, "--prepare", *small, SECTILE_RECORD="calls.json")
        output(sectile, "build", "--from", "calls.json", "--target", "sm_90a,virtual:sm_90a", "-o", "app.sectile")
        output(decoder, "model", "--device", "cuda:0", "--bundle", "app.sectile", "--prepare", *small, FAKE_CUDA_CAPABILITY="90")
        compiled = texts(*small)
        assert texts(*small, "--bundle", "app.sectile", program=decoder) == compiled
        refused("model", *SM90, "--prepare", *small, says="this program has no code for it and no compiler", program=decoder)
        # Beside the model it is found without being named.
        os.rename("app.sectile", "model/decoder.sectile")
        assert texts(*small, program=decoder) == compiled
        os.remove("model/decoder.sectile")


def test_it_needs_no_compiler():
    libraries = output("ldd", decoder)
    assert "libsectile_kernels" in libraries and not re.search(r"libsectile\.so|LLVM|MLIR", libraries), libraries


def test_random_weights_and_speed():
    tiny_model.write("llama", "model")
    os.remove("model/model.safetensors")
    lines = texts("--random", "--layers", "1")[0]
    assert [len(line.split()) for line in lines] == [wanted for _, wanted in LENGTHS]
    report = output(compiles, "model", *SM90, "--random", "--bench", "40", "--batch", "2", "--tokens", "4").splitlines()
    assert len(report) == 2 and report[0].startswith("batch 2, 40 keys: ") and "attention" in report[1], report


def broken(says, kind="llama", **changes):
    tiny_model.write(kind, "model")
    path = pathlib.Path("model/config.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    refused("model", *SM90, text="1 2\n", says=says)


def test_wrong_models_are_refused():
    refused("nowhere", text="1\n", says="nowhere/config.json cannot be opened")
    broken("type 'gpt2'", model_type="gpt2")
    broken("has the activation 'relu'", hidden_act="relu")
    broken("knows silu for experts", kind="qwen3_moe", hidden_act="gelu")
    broken("mlp_bias of experts", kind="qwen3_moe", mlp_bias=True)
    broken("has no tensor 'model.layers.0.self_attn.q_proj.bias'", attention_bias=True)
    broken("has no tensor 'model.layers.0.self_attn.q_proj.bias'", model_type="qwen2")
    for name, value in (("attn_logit_softcapping", 50.0), ("final_logit_softcapping", 30.0), ("use_bidirectional_attention", True)):
        broken(f"with {name}", kind="gemma3_text", **{name: value})
    broken("layers with windows, and no sliding_window above 0", kind="qwen3", use_sliding_window=True, max_window_layers=1)
    broken("no sliding_window above 0", kind="gemma3_text", sliding_window=0)
    broken("layers of the type 'chunked_attention'", kind="gemma3_text", layer_types=["chunked_attention"] * 3)
    broken("has 3 layers, and types of 2", kind="gemma3_text", layer_types=["full_attention"] * 2)
    broken("no query_pre_attn_scalar above 0", kind="gemma3_text", query_pre_attn_scalar=0)
    broken("no sliding_window_pattern above 0", kind="gemma3_text", layer_types=None, sliding_window_pattern=0)
    broken("experts in some layers only", kind="qwen3_moe", decoder_sparse_step=2)
    broken("experts in some layers only", kind="qwen3_moe", mlp_only_layers=[0])
    broken("chooses 7 of 6 experts", kind="qwen3_moe", num_experts_per_tok=7)
    broken("impossible extents", num_key_value_heads=3)
    broken("impossible extents", hidden_size=0)
    broken("an even number", head_dim=15)
    broken("scales positions by 'longrope'", rope_scaling={"rope_type": "longrope"})
    broken("has mscale", rope_scaling={"rope_type": "yarn", "factor": 2.0, "mscale": 1.0})
    broken("no model's config.json", rope_scaling={"rope_type": "linear"})
    broken("no model's config.json", hidden_size="wide")
    broken("but config.json asks for [40, 64]", vocab_size=40)
    broken("has no tensor 'model.layers.2.input_layernorm.weight'", num_hidden_layers=3)
    tiny_model.write("llama", "model", files=2)
    pathlib.Path("model/model.safetensors.index.json").write_text("{}")
    refused("model", *SM90, text="1\n", says="is no index of tensors")
    pathlib.Path("model/model.safetensors.index.json").write_text('{"weight_map": {"a": "b"}}')
    refused("model", *SM90, text="1\n", says="has no tensor 'model.embed_tokens.weight'")


def test_files_may_say_the_same_in_other_words():
    def logits(kind, **changes):
        tiny_model.write(kind, "model", **changes)
        return output(compiles, "model", *SM90, "--logits", "--dtype", "f32", text="5 6 7 / 3\n" + "9 " * 50 + "/ 2\n")

    linear = {"rope_type": "linear", "factor": 2.0}
    for kind, one, other in (
        ("llama", {"rope_theta": 500.0, "rope_scaling": linear},
         {"rope_theta": None, "rope_scaling": None, "rope_parameters": {"rope_theta": 500.0, **linear}}),
        ("gemma3_text", {"rope_theta": 5000.0, "rope_scaling": linear},
         {"rope_theta": None, "rope_scaling": linear, "rope_local_base_freq": None, "rope_parameters": {
             "full_attention": {"rope_theta": 5000.0, **linear}, "sliding_attention": {"rope_theta": 100.0, "rope_type": "default"}}}),
        ("gemma3_text", {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
         {"layer_types": None, "sliding_window_pattern": 2}),
        ("qwen3", {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 20, "use_sliding_window": True},
         {"sliding_window": 20, "use_sliding_window": True, "max_window_layers": 1}),
        ("mistral", {"layer_types": ["sliding_attention"] * 2, "sliding_window": 20}, {"sliding_window": 20}),
    ):
        assert logits(kind, **one) == logits(kind, **other), (kind, one, other)
        assert logits(kind, **one) != logits(kind, **{**one, "sliding_window": 22, "rope_scaling": None}), kind


def test_broken_weights_are_no_texts():
    tiny_model.write("llama", "model")
    path = pathlib.Path("model/model.safetensors")
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    begin = json.loads(content[8 : 8 + length])["model.norm.weight"]["data_offsets"][0] + 8 + length
    path.write_bytes(content[:begin] + b"\xc0\x7f" + content[begin + 2 :])
    refused("model", *SM90, text="1\n", says="are not numbers")


def test_prompts():
    tiny_model.write("llama", "model")
    for text, says in (
        ("", "there are no prompts"),
        ("\n \n", "there are no prompts"),
        ("1 two\n", "prompt 1 has 'two', which is not the number of a token"),
        ("1\n2 / \n", "prompt 2 does not end with a number of tokens after '/'"),
        ("2 / 3 4\n", "prompt 1 does not end with a number"),
        ("2 / 0\n", "prompt 1 asks for no tokens"),
        ("/ 3\n", "prompt 1 has no tokens"),
        ("1\n80\n", "prompt 2 has token 80; the model has those from 0 to 79"),
        ("-1\n", "prompt 1 has token -1"),
        ("1 2 3 / 255\n", "prompt 1 becomes 257 tokens long; the context has 256"),
    ):
        refused("model", *SM90, text=text, says=says)
    refused("model", *SM90, "--pages", "2", text="1 / 200\n", says="prompt 1 needs 4 pages of the cache, which has 2")
    # The longest text that fits.
    assert len(output(compiles, "model", *SM90, "--context", "24", text="1 2 3 / 22\n").split()) == 22
    refused("model", *SM90, "--context", "24", text="1 2 3 / 23\n", says="prompt 1 becomes 25 tokens long; the context has 24")


def test_words():
    tiny_model.write("llama", "model")
    assert "usage: decoder" in output(decoder, "--help")
    for words, says in (
        ((), "MODEL_DIR is missing"),
        (("model", "--none"), "no option --none"),
        (("model", "more"), "no use for 'more'"),
        (("model", "--device"), "--device needs a value"),
        (("model", "--batch", "0"), "from 1 to 16777216, not '0'"),
        (("model", "--tokens", "12x"), "not '12x'"),
        (("model", "--temperature", "-1"), "from 0 to 100, not '-1'"),
        (("model", "--temperature", "nan"), "not 'nan'"),
        (("model", "--top-p", "1.5"), "from 0 to 1, not '1.5'"),
        (("model", "--dtype", "f64"), "bf16, f16 or f32, not 'f64'"),
        (("model", "--context", "300"), "the model has 256 positions"),
        (("model", "--layers", "3"), "the model has 2"),
        (("model", "--page", "300"), "up to 256 keys"),
        (("model", "--batch", "8", "--batch-tokens", "7"), "--batch-tokens is less than --batch"),
    ):
        refused(*words, says=says, status=2, text="1\n")
    refused("model", text="1\n", says="no GPU was found", program=decoder, SECTILE_CUDA_LIBRARY="nowhere/libcuda.so",
            SECTILE_HIP_LIBRARY="nowhere/libhip.so")


script.main(globals())
