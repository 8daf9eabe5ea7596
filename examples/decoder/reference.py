# The model in NumPy and float64, one text at a time, without cache, pages or batches: what the program's logits are held
# against.
import json
import math
import os

import numpy


def read_safetensors(path):
    """name -> array of float64; of F32, F16 and BF16 tensors."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)

    def array(entry):
        raw = data[slice(*entry["data_offsets"])]
        if entry["dtype"] == "BF16":
            elements = (numpy.frombuffer(raw, "<u2").astype(numpy.uint32) << 16).view(numpy.float32)
        else:
            elements = numpy.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[entry["dtype"]])
        return elements.astype(numpy.float64).reshape(entry["shape"])

    return {name: array(entry) for name, entry in header.items()}


def read_folder(folder):
    index = os.path.join(folder, "model.safetensors.index.json")
    files = {"model.safetensors"}
    if os.path.exists(index):
        with open(index, encoding="utf-8") as file:
            files = set(json.load(file)["weight_map"].values())
    weights = {}
    for name in sorted(files):
        weights.update(read_safetensors(os.path.join(folder, name)))
    return weights


def frequencies(config, theta, scaling):
    """Of the pairs of a head, and the factor of rotated numbers."""
    size = config["head_dim"]
    pairs = numpy.arange(size // 2)
    plain = theta ** (-2.0 * pairs / size)
    if not scaling:
        return plain, 1.0
    kind, factor = scaling["rope_type"], scaling["factor"]
    original = scaling.get("original_max_position_embeddings", config["max_position_embeddings"])
    if kind == "linear":
        return plain / factor, 1.0
    if kind == "llama3":
        turns = original * plain / (2 * math.pi)  # in the original context
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        smooth = numpy.clip((turns - low) / (high - low), 0, 1)
        return (1 - smooth) * plain / factor + smooth * plain, 1.0
    assert kind == "yarn", kind

    def pair(beta):
        return size * math.log(original / (2 * math.pi * beta)) / (2 * math.log(theta))

    first, last = math.floor(pair(scaling.get("beta_fast", 32))), math.ceil(pair(scaling.get("beta_slow", 1)))
    first, last = max(first, 0), min(last, size - 1)
    ramp = numpy.clip((pairs - first) / max(last - first, 1e-3), 0, 1)
    return (1 - ramp) * plain + ramp * plain / factor, scaling.get("attention_factor", 0.1 * math.log(factor) + 1)


class Decoder:
    def __init__(self, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        self.weights = read_folder(folder)
        config = self.config
        self.is_gemma = config["model_type"] == "gemma3_text"
        self.rotations = {"full_attention": frequencies(config, config["rope_theta"], config.get("rope_scaling"))}
        self.layers = config.get("layer_types") or ["full_attention"] * config["num_hidden_layers"]
        if "sliding_attention" in self.layers:
            theta, scaling = config["rope_theta"], config.get("rope_scaling")
            if self.is_gemma:
                theta, scaling = config["rope_local_base_freq"], None
            self.rotations["sliding_attention"] = frequencies(config, theta, scaling)

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights.get(name + ".bias", 0)

    def norm(self, x, name):
        weight = self.weights[name + ".weight"] + self.is_gemma
        return x / numpy.sqrt((x**2).mean(-1, keepdims=True) + self.config["rms_norm_eps"]) * weight

    def rotate(self, x, kind):
        """x [T, H, D] at positions 0 to T - 1."""
        steps, factor = self.rotations[kind]
        angles = numpy.arange(len(x))[:, None, None] * steps
        cos, sin = numpy.cos(angles) * factor, numpy.sin(angles) * factor
        first, second = numpy.split(x, 2, axis=-1)
        return numpy.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    def attention(self, x, name, kind):
        config = self.config
        size, heads, kv_heads = config["head_dim"], config["num_attention_heads"], config["num_key_value_heads"]
        q, k, v = (self.linear(x, f"{name}.{part}_proj").reshape(len(x), -1, size) for part in "qkv")
        if config["model_type"] in ("qwen3", "qwen3_moe", "gemma3_text"):
            q, k = self.norm(q, name + ".q_norm"), self.norm(k, name + ".k_norm")
        q, k = self.rotate(q, kind), self.rotate(k, kind)
        k, v = (numpy.repeat(y, heads // kv_heads, axis=1) for y in (k, v))
        scores = numpy.einsum("ihd,jhd->hij", q, k) / math.sqrt(config.get("query_pre_attn_scalar", size))
        seen = numpy.tri(len(x), dtype=bool)
        if kind == "sliding_attention":
            seen &= ~numpy.tri(len(x), k=-config["sliding_window"], dtype=bool)
        scores = numpy.where(seen, scores, -numpy.inf)
        scores = numpy.exp(scores - scores.max(-1, keepdims=True))
        mixed = numpy.einsum("hij,jhd->ihd", scores / scores.sum(-1, keepdims=True), v)
        return self.linear(mixed.reshape(len(x), -1), name + ".o_proj")

    def mlp(self, x, name):
        gate = self.linear(x, name + "gate_proj")
        kind = self.config.get("hidden_activation") or self.config["hidden_act"]
        if kind == "gelu_pytorch_tanh":
            gate = gate / 2 * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)))
        elif kind == "gelu":
            gate = gate / 2 * (1 + numpy.vectorize(math.erf)(gate / math.sqrt(2)))
        else:
            assert kind == "silu", kind
            gate = gate / (1 + numpy.exp(-gate))
        return self.linear(gate * self.linear(x, name + "up_proj"), name + "down_proj")

    def experts(self, x, name):
        scores = self.linear(x, name + "gate")
        scores = numpy.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        result = numpy.zeros_like(x)
        count = self.config["num_experts_per_tok"]
        for token, row in enumerate(scores):
            order = numpy.argsort(-row, kind="stable")
            chosen = order[:count]
            if count < len(row):
                self.margins[token] = min(self.margins[token], math.log(row[order[count - 1]] / row[order[count]]))
            total = row[chosen].sum() if self.config["norm_topk_prob"] else 1.0
            for expert in chosen:
                result[token] += row[expert] / total * self.mlp(x[token : token + 1], f"{name}experts.{expert}.")[0]
        return result

    def logits(self, tokens):
        """[T, V]: of the token after each of these. Then `margins` has of each token by how much, in any layer, the last expert
        that was chosen was ahead of the next one: where that is less than rounding, another one may be chosen as well."""
        self.margins = numpy.full(len(tokens), numpy.inf)
        x = self.weights["model.embed_tokens.weight"][tokens]
        if self.is_gemma:
            x = x * math.sqrt(self.config["hidden_size"])
        for layer, kind in enumerate(self.layers):
            name = f"model.layers.{layer}."
            y = self.attention(self.norm(x, name + "input_layernorm"), name + "self_attn", kind)
            x = x + (self.norm(y, name + "post_attention_layernorm") if self.is_gemma else y)
            y = self.norm(x, name + ("pre_feedforward_layernorm" if self.is_gemma else "post_attention_layernorm"))
            y = (self.experts if "num_experts" in self.config else self.mlp)(y, name + "mlp.")
            x = x + (self.norm(y, name + "post_feedforward_layernorm") if self.is_gemma else y)
        x = self.norm(x, "model.norm")
        return self.linear(x, "model.embed_tokens" if self.config["tie_word_embeddings"] else "lm_head")
