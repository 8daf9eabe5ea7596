# Sentences per second of minilm beside torch on one GPU, in one run: bench_torch.py PROGRAM MODEL_DIR [OPTION...]
# Both get the same tokens and run in f16. torch pads a batch to its longest sentence, once in the order given and once sorted
# by length, as sentence-transformers does; attention is its scaled_dot_product_attention. torch's batches are padded and pinned
# beforehand, while minilm's time has the packing in it.
import os
import subprocess
import sys
import time

import torch
from torch.nn import functional

import reference

program, folder, *options = sys.argv[1:]
BATCH = int(options[options.index("--batch") + 1]) if "--batch" in options else 1024


class Encoder(torch.nn.Module):
    def __init__(self, folder):
        super().__init__()
        model = reference.Encoder(folder)
        self.config = model.config
        for name, array in model.weights.items():
            if array.dtype.kind == "f" and not name.endswith("position_ids") and "pooler" not in name:
                self.register_buffer(name.replace(".", "_"), torch.tensor(array, dtype=torch.float16, device="cuda"))
        for layer in range(self.config["num_hidden_layers"]):
            for kind in ("weight", "bias"):
                parts = [getattr(self, f"encoder_layer_{layer}_attention_self_{part}_{kind}") for part in ("query", "key", "value")]
                self.register_buffer(f"qkv_{layer}_{kind}", torch.cat(parts))

    def linear(self, x, name):
        return functional.linear(x, getattr(self, name + "_weight"), getattr(self, name + "_bias"))

    def norm(self, x, name):
        return functional.layer_norm(x, x.shape[-1:], getattr(self, name + "_weight"), getattr(self, name + "_bias"),
                                     self.config["layer_norm_eps"])

    def forward(self, ids, mask):
        """ids and mask [B, S] -> vectors [B, H] of length 1."""
        batch, longest = ids.shape
        heads = self.config["num_attention_heads"]
        x = self.embeddings_word_embeddings_weight[ids] + self.embeddings_position_embeddings_weight[:longest]
        x = self.norm(x + self.embeddings_token_type_embeddings_weight[0], "embeddings_LayerNorm")
        seen = mask[:, None, None, :]
        for layer in range(self.config["num_hidden_layers"]):
            name = f"encoder_layer_{layer}_"
            q, k, v = self.linear(x, f"qkv_{layer}").view(batch, longest, 3, heads, -1).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).reshape(x.shape)
            x = self.norm(self.linear(mixed, name + "attention_output_dense") + x, name + "attention_output_LayerNorm")
            inner = functional.gelu(self.linear(x, name + "intermediate_dense"))
            x = self.norm(self.linear(inner, name + "output_dense") + x, name + "output_LayerNorm")
        weights = mask[..., None].to(x.dtype)
        pooled = (x * weights).sum(1).float() / weights.sum(1).float()
        return functional.normalize(pooled)


def batches(sentences, order):
    """[(ids, mask)] in pinned memory, for sentences in this order."""
    result = []
    for first in range(0, len(order), BATCH):
        places = order[first : first + BATCH]
        lengths = torch.tensor([len(sentences[i]) for i in places])
        ids = torch.zeros(len(places), int(lengths.max()), dtype=torch.int64)
        for row, i in enumerate(places):
            ids[row, : lengths[row]] = sentences[i]
        mask = torch.arange(ids.shape[1])[None] < lengths[:, None]
        result.append((ids.pin_memory(), mask.pin_memory()))
    return result


def encode(model, padded):
    results = [model(ids.cuda(non_blocking=True), mask.cuda(non_blocking=True)) for ids, mask in padded]
    return torch.cat(results).cpu()


def seconds(work):
    """The best of some runs after one that warms up."""
    work()
    best = float("inf")
    begin = time.perf_counter()
    while time.perf_counter() - begin < 3:
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def read_sentences():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "sentences.txt"), encoding="utf-8") as file:
        return [line for line in file.read().split("\n") if line]


def compare(lines, eager, compiled):
    text = "\n".join(lines) + "\n"

    def ours(*words):
        return subprocess.run([program, folder, *words, *options], input=text, capture_output=True, text=True, check=True,
                              encoding="utf-8").stdout

    tokens = [torch.tensor([int(word) for word in line.split()]) for line in ours("--tokens").splitlines()]
    found = torch.tensor([[float(word) for word in line.split()] for line in ours("--embeddings").splitlines()])
    exact = encode(eager, batches(tokens, list(range(len(tokens)))))
    print(f"the longest difference of a vector from torch's: {(found - exact).norm(dim=1).max():.1e}")
    print("minilm:", ours("--bench").strip(), flush=True)
    many = [tokens[i % len(tokens)] for i in range(8 * BATCH)]
    as_given = list(range(len(many)))
    by_length = sorted(as_given, key=lambda i: len(many[i]))
    for name, model in (("eager", eager), ("compiled", compiled)):
        for how, order in (("as given", as_given), ("sorted by length", by_length)):
            padded = batches(many, order)
            took = seconds(lambda: encode(model, padded))
            print(f"torch, {name}, {how}: {len(many) / took:.0f} a second", flush=True)
        one = batches(many[:1], [0])
        print(f"torch, {name}: a batch of one takes {seconds(lambda: encode(model, one)) * 1e6:.0f} us", flush=True)


def main():
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    sentences = read_sentences()
    paragraphs = [" ".join(sentences[(i + j) % len(sentences)] for j in range(i % 8 + 1)) for i in range(40)]
    with torch.inference_mode():
        eager = Encoder(folder)
        compiled = torch.compile(eager, dynamic=True)
        for name, lines in (("sentences", sentences), ("paragraphs of 1 to 8 sentences", paragraphs)):
            print(f"-- {name}")
            compare(lines, eager, compiled)


main()
