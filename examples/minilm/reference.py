# The encoder in NumPy and float64, one sentence at a time and without any padding: what minilm's vectors are held against.
import json
import math
import os

import numpy


def read_safetensors(path):
    """name -> array; of F32, F16 and I64 tensors."""
    kinds = {"F32": "<f4", "F16": "<f2", "I64": "<i8"}
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    return {
        name: numpy.frombuffer(data[slice(*entry["data_offsets"])], kinds[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()
    }


def longest(folder):
    """How many tokens a sentence may have."""
    with open(os.path.join(folder, "sentence_bert_config.json"), encoding="utf-8") as file:
        return json.load(file)["max_seq_length"]


class Encoder:
    def __init__(self, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        weights = read_safetensors(os.path.join(folder, "model.safetensors"))
        self.weights = {name: array.astype(numpy.float64) for name, array in weights.items()}

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def norm(self, x, name):
        centred = x - x.mean(-1, keepdims=True)
        deviation = numpy.sqrt((centred**2).mean(-1, keepdims=True) + self.config["layer_norm_eps"])
        return centred / deviation * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def attention(self, x, name):
        heads = self.config["num_attention_heads"]
        split = lambda y: y.reshape(len(y), heads, -1).transpose(1, 0, 2)
        q, k, v = (split(self.linear(x, f"{name}.{part}")) for part in ("query", "key", "value"))
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
        scores = numpy.exp(scores - scores.max(-1, keepdims=True))
        mixed = scores / scores.sum(-1, keepdims=True) @ v
        return mixed.transpose(1, 0, 2).reshape(x.shape)

    def encode(self, tokens):
        """The vector, of length 1, of a sentence's tokens."""
        weights, embeddings = self.weights, "embeddings."
        x = weights[embeddings + "word_embeddings.weight"][tokens]
        x = x + weights[embeddings + "position_embeddings.weight"][: len(tokens)]
        x = x + weights[embeddings + "token_type_embeddings.weight"][0]
        x = self.norm(x, embeddings + "LayerNorm")
        erf = numpy.vectorize(math.erf)
        for layer in range(self.config["num_hidden_layers"]):
            name = f"encoder.layer.{layer}."
            attended = self.linear(self.attention(x, name + "attention.self"), name + "attention.output.dense")
            x = self.norm(attended + x, name + "attention.output.LayerNorm")
            inner = self.linear(x, name + "intermediate.dense")
            inner = inner * (1 + erf(inner / math.sqrt(2))) / 2
            x = self.norm(self.linear(inner, name + "output.dense") + x, name + "output.LayerNorm")
        mean = x.mean(0)
        return mean / numpy.linalg.norm(mean)
