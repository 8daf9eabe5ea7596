# Makes of a Gemma 3 in a GGUF file a folder for decoder, weights in f32, and if asked another GGUF file with these weights,
# for programs that would compute with quantised ones: from_gguf.py FILE.gguf FOLDER [F32.gguf]. Needs the package gguf.
import json
import os
import struct
import sys

import gguf
import numpy

PARTS = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
         "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm", "ffn_gate": "mlp.gate_proj",
         "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "post_ffw_norm": "post_feedforward_layernorm"}
WHOLE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}


class Unsupported(ValueError):
    """A file that has something that this script would lose."""


def name_of(tensor):
    """What Hugging Face calls a tensor."""
    if tensor in WHOLE:
        return WHOLE[tensor]
    words = tensor.split(".")
    if len(words) != 4 or words[0] != "blk" or words[2] not in PARTS or words[3] != "weight":
        raise Unsupported(f"there is a tensor '{tensor}', which Gemma 3 does not have")
    return f"model.layers.{words[1]}.{PARTS[words[2]]}.weight"


def values(tensor):
    """Its elements, f32."""
    return gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32, copy=False)


def config(reader):
    """config.json, as Hugging Face has it."""

    def value(name, *otherwise):
        field = reader.fields.get(name)
        if field is None:
            if not otherwise:
                raise Unsupported(f"there is no {name}")
            return otherwise[0]
        return field.contents()

    def own(name, *otherwise):
        return value("gemma3." + name, *otherwise)

    if value("general.architecture") != "gemma3":
        raise Unsupported(f"this is of the architecture {value('general.architecture')}; the script knows gemma3")
    width, layers, heads, size = (own(name) for name in
                                  ("embedding_length", "block_count", "attention.head_count", "attention.key_length"))
    if own("attention.value_length", size) != size:
        raise Unsupported("keys and values have other widths")
    if own("rope.dimension_count", size) != size:
        raise Unsupported("only parts of heads are rotated")
    scaling = own("rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise Unsupported(f"positions are scaled by {scaling}")
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    stops = [value("tokenizer.ggml.eos_token_id"), value("tokenizer.ggml.eot_token_id", None)]
    window = own("attention.sliding_window", 0)
    pattern = own("attention.sliding_window_pattern", 6)
    if isinstance(pattern, list):
        windows = pattern
    else:
        windows = [(i + 1) % pattern != 0 for i in range(layers)]
    return {"model_type": "gemma3_text", "num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads,
            "num_key_value_heads": own("attention.head_count_kv", heads), "head_dim": size,
            "intermediate_size": own("feed_forward_length"), "vocab_size": int(tensors["token_embd.weight"].shape[1]),
            "max_position_embeddings": own("context_length"), "hidden_activation": "gelu_pytorch_tanh",
            "rms_norm_eps": own("attention.layer_norm_rms_epsilon"), "sliding_window": window or None,
            "layer_types": ["sliding_attention" if window and near else "full_attention" for near in windows],
            "rope_theta": own("rope.freq_base", 10000.0), "rope_local_base_freq": own("rope.freq_base_swa", 10000.0),
            "rope_scaling": {"rope_type": "linear", "factor": own("rope.scaling.factor")} if scaling == "linear" else None,
            # The file does not say it; that of the 27B model, of 62 layers, is the only one that is not a head's width.
            "query_pre_attn_scalar": width // heads if layers == 62 else size,
            "attn_logit_softcapping": own("attn_logit_softcapping", None),
            "final_logit_softcapping": own("final_logit_softcapping", None),
            "tie_word_embeddings": "output.weight" not in tensors,
            "eos_token_id": [stop for stop in stops if stop is not None]}


def write_safetensors(path, tensors):
    """As Hugging Face has Gemma: norms without the 1 that is added to their weights."""
    header, place = {"__metadata__": {"format": "pt"}}, 0
    for tensor in tensors:
        shape = [int(extent) for extent in reversed(tensor.shape)]
        size = 4 * int(tensor.n_elements)
        header[name_of(tensor.name)] = {"dtype": "F32", "shape": shape, "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors:
            data = values(tensor)
            (data - 1 if tensor.name.endswith("norm.weight") else data).tofile(file)


def write_gguf(path, reader):
    """The same file with weights in f32."""
    writer = gguf.GGUFWriter(path, arch=reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type", "general.quantization_version"):
            continue
        writer.add_key_value(name, field.contents(), field.types[0],
                             sub_type=field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        shape = [int(extent) for extent in reversed(tensor.shape)]
        writer.add_tensor_info(tensor.name, shape, numpy.dtype(numpy.float32), 4 * int(tensor.n_elements))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in reader.tensors:
        writer.write_tensor_data(values(tensor))
    writer.close()


def convert(path, folder, plain=None):
    """Throws Unsupported for what is no Gemma 3 that decoder computes. The folder's files are whole or not there."""
    reader = gguf.GGUFReader(path)
    description = config(reader)
    os.makedirs(folder, exist_ok=True)
    weights = os.path.join(folder, "model.safetensors")
    write_safetensors(weights + ".part", reader.tensors)
    os.replace(weights + ".part", weights)
    if plain:
        write_gguf(plain + ".part", reader)
        os.replace(plain + ".part", plain)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(description, file, indent=2)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: from_gguf.py FILE.gguf FOLDER [F32.gguf]")
    try:
        convert(*sys.argv[1:])
    except Unsupported as error:
        sys.exit(f"{sys.argv[1]}: {error}")
