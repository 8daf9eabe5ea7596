# Writes small random models for tests, always the same ones: tiny_model.py KIND FOLDER, where KIND is llama, qwen2,
# qwen3, qwen3_moe or gemma3_text. Weights are written as BF16, so that programs of any precision have the same.
import json
import os
import random
import struct
import sys

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD, INNER, VOCABULARY, POSITIONS = 2, 64, 4, 2, 32, 96, 80, 256
EXPERTS, CHOSEN = 6, 2
KINDS = ("llama", "qwen2", "qwen3", "qwen3_moe", "gemma3_text")


def config(kind):
    values = {"model_type": kind, "hidden_act": "silu", "num_hidden_layers": LAYERS, "hidden_size": HIDDEN,
              "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "intermediate_size": INNER,
              "vocab_size": VOCABULARY, "max_position_embeddings": POSITIONS, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "tie_word_embeddings": kind in ("qwen3", "gemma3_text"), "attention_bias": False}
    if kind == "llama":
        # Contexts of the tests are longer than the original length.
        values["rope_scaling"] = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                  "original_max_position_embeddings": 32}
    if kind == "qwen3_moe":
        values.update(num_experts=EXPERTS, num_experts_per_tok=CHOSEN, moe_intermediate_size=INNER // 2, norm_topk_prob=True,
                      decoder_sparse_step=1, mlp_only_layers=[])
    if kind == "gemma3_text":
        del values["hidden_act"]
        # Layers of both kinds, whose positions differ; windows that are shorter than the texts.
        values.update(hidden_activation="gelu_pytorch_tanh", num_hidden_layers=3, query_pre_attn_scalar=20, sliding_window=24,
                      layer_types=["sliding_attention", "full_attention", "sliding_attention"], rope_local_base_freq=100.0,
                      attn_logit_softcapping=None, final_logit_softcapping=None)
    return values


def tensors(model):
    """name -> (shape, mean, deviation) of its elements."""
    hidden, head = model["hidden_size"], model["head_dim"]
    shapes = {}

    def matrix(name, rows, columns, gain=1.0):
        shapes[name + ".weight"] = ([rows, columns], 0, gain / columns**0.5)

    gemma = model["model_type"] == "gemma3_text"
    attention_bias, mlp_bias = model["attention_bias"], model.get("mlp_bias", False)

    def linear(name, rows, columns, gain=1.0, biased=False):
        matrix(name, rows, columns, gain)
        if biased:
            shapes[name + ".bias"] = ([rows], 0, 0.5)

    def norm(name, size):
        shapes[name + ".weight"] = ([size], 0 if gemma else 1, 0.2)

    # Gemma's states are not to be so large beside what layers add to them that nobody sees a wrong layer.
    matrix("model.embed_tokens", model["vocab_size"], hidden, hidden**0.5 / (4 if gemma else 1))
    norm("model.norm", hidden)
    if not model["tie_word_embeddings"]:
        matrix("lm_head", model["vocab_size"], hidden, 2)
    for layer in range(model["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        norm(name + "input_layernorm", hidden)
        norm(name + "post_attention_layernorm", hidden)
        if gemma:
            norm(name + "pre_feedforward_layernorm", hidden)
            norm(name + "post_feedforward_layernorm", hidden)
        for part, heads in (("q", model["num_attention_heads"]), ("k", model["num_key_value_heads"]),
                            ("v", model["num_key_value_heads"])):
            # Scores that differ: attention to all alike would hide a wrong key.
            linear(f"{name}self_attn.{part}_proj", heads * head, hidden, 2, attention_bias or model["model_type"] == "qwen2")
        linear(name + "self_attn.o_proj", hidden, model["num_attention_heads"] * head, 1, attention_bias)
        if model["model_type"] in ("qwen3", "qwen3_moe", "gemma3_text"):
            norm(name + "self_attn.q_norm", head)
            norm(name + "self_attn.k_norm", head)
        mlps = [(name + "mlp.", model["intermediate_size"])]
        if "num_experts" in model:
            matrix(name + "mlp.gate", model["num_experts"], hidden, 2)
            mlps = [(f"{name}mlp.experts.{expert}.", model["moe_intermediate_size"]) for expert in range(model["num_experts"])]
        for mlp, inner in mlps:
            linear(mlp + "gate_proj", inner, hidden, 1, mlp_bias)
            linear(mlp + "up_proj", inner, hidden, 1, mlp_bias)
            linear(mlp + "down_proj", hidden, inner, 1, mlp_bias)
    return shapes


def bfloat16(numbers):
    """Their bytes, rounded towards zero."""
    return b"".join(struct.pack("<f", number)[2:] for number in numbers)


def write_safetensors(path, shapes, seed):
    numbers = random.Random(seed)
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (shape, mean, deviation) in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        elements = bfloat16(numbers.gauss(mean, deviation) for _ in range(count))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(elements)]}
        data += elements
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def write(kind, folder, seed=1, files=1, **changes):
    """With several files their tensors are listed by an index, as large models have it."""
    os.makedirs(folder, exist_ok=True)
    model = {**config(kind), **changes}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(model, file)
    shapes = tensors(model)
    if files == 1:
        write_safetensors(os.path.join(folder, "model.safetensors"), shapes, seed)
        return
    names = list(shapes)
    places = {}
    for i in range(files):
        path = f"model-{i + 1:05}-of-{files:05}.safetensors"
        part = names[i::files]
        write_safetensors(os.path.join(folder, path), {name: shapes[name] for name in part}, seed + i)
        places.update(dict.fromkeys(part, path))
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump({"metadata": {}, "weight_map": places}, file)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in KINDS:
        sys.exit(f"usage: tiny_model.py {'|'.join(KINDS)} FOLDER")
    write(*sys.argv[1:])
