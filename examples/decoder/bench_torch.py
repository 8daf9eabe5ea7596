# Tokens per second of decoder beside torch on one GPU, in one run, with random weights of a model's shapes:
# bench_torch.py PROGRAM MODEL_DIR [--layers N] [--batches 1,16,64] [--keys 1024,4096] [--tokens N]
# MODEL_DIR needs config.json alone, of a Llama; shapes/ has some. Both run in bf16 and take the likeliest token.
# torch is compiled with graphs and has a static cache, of the length that the texts become; attention is its
# scaled_dot_product_attention with a mask, because positions are in device memory. A second time is for comparison only: with a
# slice of the cache of a constant length and no mask, which a program whose texts grow cannot have.
# Both have the texts of all steps on the host: torch once at the end, decoder after each step.
import argparse
import gc
import json
import os
import subprocess
import time

import torch
from torch.nn import functional


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--batches", default="1,16,64")
    parser.add_argument("--keys", default="1024,4096")
    parser.add_argument("--tokens", type=int, default=64, help="decoding steps that are measured")
    parser.add_argument("--only", choices=("decoder", "torch"))
    return parser.parse_args()


class Llama(torch.nn.Module):
    def __init__(self, config, layers):
        super().__init__()
        self.config, self.layers = config, layers
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.head = config.get("head_dim") or config["hidden_size"] // self.heads
        hidden, inner = config["hidden_size"], config["intermediate_size"]

        def matrix(name, rows, columns):
            weight = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) / columns**0.5
            self.register_buffer(name, weight)

        matrix("table", config["vocab_size"], hidden)
        matrix("output", config["vocab_size"], hidden)
        for i in range(layers):
            matrix(f"qkv_{i}", (self.heads + 2 * self.kv_heads) * self.head, hidden)
            matrix(f"o_{i}", hidden, self.heads * self.head)
            matrix(f"up_{i}", 2 * inner, hidden)
            matrix(f"down_{i}", hidden, inner)
        self.register_buffer("ones", torch.ones(hidden, device="cuda", dtype=torch.bfloat16))
        pairs = torch.arange(self.head // 2, device="cuda", dtype=torch.float32)
        self.register_buffer("frequencies", config["rope_theta"] ** (-2 * pairs / self.head))

    def make_cache(self, batch, length):
        shape = (batch, self.kv_heads, length, self.head)
        return [tuple(torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(2)) for _ in range(self.layers)]

    def norm(self, x):
        return functional.rms_norm(x, x.shape[-1:], self.ones, self.config["rms_norm_eps"])

    def rotate(self, x, cos, sin):
        first, second = x.float().chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)

    def step(self, tokens, position, cache, seen):
        """tokens [B], position [1] -> the next tokens. seen: keys that are read without a mask, or 0."""
        batch = tokens.shape[0]
        x = self.table[tokens]
        angles = position.float() * self.frequencies
        cos, sin = angles.cos(), angles.sin()
        length = cache[0][0].shape[2]
        mask = None if seen else (torch.arange(length, device=x.device) <= position)[None, None, None]
        sizes = (self.heads, self.kv_heads, self.kv_heads)
        for i in range(self.layers):
            y = functional.linear(self.norm(x), getattr(self, f"qkv_{i}")).view(batch, -1, 1, self.head)
            q, k, v = y.split(sizes, dim=1)
            q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
            keys, values = cache[i]
            keys.index_copy_(2, position, k)
            values.index_copy_(2, position, v)
            if seen:
                keys, values = keys[:, :, :seen], values[:, :, :seen]
            y = functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)
            x = x + functional.linear(y.reshape(batch, -1), getattr(self, f"o_{i}"))
            gate, up = functional.linear(self.norm(x), getattr(self, f"up_{i}")).chunk(2, dim=-1)
            x = x + functional.linear(functional.silu(gate) * up, getattr(self, f"down_{i}"))
        return functional.linear(self.norm(x), self.output).float().argmax(-1)


def torch_seconds(model, batch, keys, steps, unmasked):
    """Of a step, on average, after the first ones, which compile and capture."""
    torch._dynamo.reset()
    length = -(-(keys + steps) // 64) * 64
    cache = model.make_cache(batch, length)
    for pair in cache:
        for tensor in pair:
            torch._dynamo.mark_static_address(tensor)
    compiled = torch.compile(model.step, mode="reduce-overhead", fullgraph=True)
    tokens = torch.zeros(batch, device="cuda", dtype=torch.int64)
    position = torch.tensor([keys], device="cuda")
    seen = keys if unmasked else 0

    def run(count):
        nonlocal tokens
        position.fill_(keys)
        drawn = []
        for _ in range(count):
            torch.compiler.cudagraph_mark_step_begin()
            tokens = compiled(tokens, position, cache, seen).clone()
            drawn.append(tokens)
            position.add_(1)
        return torch.stack(drawn).cpu()

    run(4)
    best = float("inf")
    for _ in range(3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run(steps)
        best = min(best, (time.perf_counter() - begin) / steps)
    return best


def main():
    options = arguments()
    with open(os.path.join(options.folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    assert config["model_type"] == "llama" or options.only == "decoder", "torch's model here is a Llama"
    layers = options.layers or config["num_hidden_layers"]
    shapes = [(batch, keys) for keys in map(int, options.keys.split(",")) for batch in map(int, options.batches.split(","))]
    print(torch.cuda.get_device_name(), "torch", torch.__version__, f"{layers} layers", flush=True)
    if options.only != "torch":
        for batch, keys in shapes:
            context = -(-(keys + options.tokens + 1) // 64) * 64
            command = [options.program, options.folder, "--random", "--device", "cuda:0", "--layers", layers, "--batch", batch,
                       "--bench", keys, "--tokens", options.tokens, "--context", context]
            print(subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout.strip(), flush=True)
    if options.only != "decoder":
        with torch.inference_mode():
            model = Llama(config, layers)
            for batch, keys in shapes:
                for unmasked in (False, True):
                    gc.collect()
                    torch.cuda.empty_cache()
                    took = torch_seconds(model, batch, keys, options.tokens, unmasked)
                    print(f"torch, batch {batch}, {keys} keys, {'no mask' if unmasked else 'mask'}: {batch / took:.1f} tokens a "
                          f"second, {took * 1e3:.3f} ms a step", flush=True)


main()
