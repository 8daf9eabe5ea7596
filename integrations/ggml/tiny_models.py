# Writes a small random model as llama.cpp reads it: tiny_models.py ARCHITECTURE TYPE FILE. Architectures: llama, qwen2, qwen3,
# qwen3moe, gemma3; types: f32, f16, bf16, q8_0, q4_0. Needs the packages gguf and numpy.
import sys

import gguf
import numpy

VOCABULARY, WIDTH, LAYERS, HEADS, KEY_HEADS, HEAD, HIDDEN, EXPERTS = 512, 256, 3, 8, 4, 32, 512, 8


def write(architecture, kind, path, decoded=False):
    """`decoded`: the same numbers as f32."""
    random = numpy.random.default_rng(1)
    kind = gguf.GGMLQuantizationType[kind.upper()]
    writer = gguf.GGUFWriter(path, architecture)
    whole = {"block_count": LAYERS, "context_length": 512, "embedding_length": WIDTH, "feed_forward_length": HIDDEN,
             "attention.head_count": HEADS, "attention.head_count_kv": KEY_HEADS, "attention.key_length": HEAD,
             "attention.value_length": HEAD, "rope.dimension_count": HEAD, "vocab_size": VOCABULARY}
    has_experts = architecture == "qwen3moe"
    if has_experts:
        whole |= {"expert_count": EXPERTS, "expert_used_count": 2, "expert_feed_forward_length": HIDDEN}
    if architecture == "gemma3":
        whole["attention.sliding_window"] = 16
    for name, value in whole.items():
        writer.add_uint32(f"{architecture}.{name}", value)
    writer.add_float32(f"{architecture}.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_float32(f"{architecture}.rope.freq_base", 10000.0)
    writer.add_string("tokenizer.ggml.model", "none")

    def matrix(name, *shape):
        values = (random.standard_normal(shape) * 2 / numpy.sqrt(shape[-1])).astype(numpy.float32)
        codes = gguf.quants.quantize(values, kind)
        if decoded:
            writer.add_tensor(name, gguf.quants.dequantize(codes, kind).astype(numpy.float32))
        else:
            writer.add_tensor(name, codes, raw_dtype=kind)

    def vector(name, size, mean=1.0):
        writer.add_tensor(name, (mean + random.standard_normal(size) / 10).astype(numpy.float32))

    matrix("token_embd.weight", VOCABULARY, WIDTH)
    vector("output_norm.weight", WIDTH)
    matrix("output.weight", VOCABULARY, WIDTH)
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        vector(block + "attn_norm.weight", WIDTH)
        vector(block + "ffn_norm.weight", WIDTH)
        for name, rows in (("q", HEADS), ("k", KEY_HEADS), ("v", KEY_HEADS)):
            matrix(f"{block}attn_{name}.weight", rows * HEAD, WIDTH)
            if architecture == "qwen2":
                vector(f"{block}attn_{name}.bias", rows * HEAD, 0)
        matrix(block + "attn_output.weight", WIDTH, HEADS * HEAD)
        if architecture in ("qwen3", "qwen3moe", "gemma3"):
            vector(block + "attn_q_norm.weight", HEAD)
            vector(block + "attn_k_norm.weight", HEAD)
        if architecture == "gemma3":
            vector(block + "post_attention_norm.weight", WIDTH)
            vector(block + "post_ffw_norm.weight", WIDTH)
        if has_experts:
            writer.add_tensor(block + "ffn_gate_inp.weight", random.standard_normal((EXPERTS, WIDTH)).astype(numpy.float32) / 16)
        part, experts = ("_exps", (EXPERTS,)) if has_experts else ("", ())
        matrix(f"{block}ffn_gate{part}.weight", *experts, HIDDEN, WIDTH)
        matrix(f"{block}ffn_up{part}.weight", *experts, HIDDEN, WIDTH)
        matrix(f"{block}ffn_down{part}.weight", *experts, WIDTH, HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: tiny_models.py ARCHITECTURE TYPE FILE")
    write(*sys.argv[1:])
