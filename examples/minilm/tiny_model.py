# Writes a small random model of all-MiniLM-L6-v2's architecture, always the same one, for tests: tiny_model.py FOLDER
import json
import os
import random
import struct
import sys

LAYERS, HIDDEN, HEADS, INNER, POSITIONS = 2, 64, 2, 128, 48
WORDS = ("the a of and in is on to it was cat dog mat sat lives lived river bridge old new under over where when nobody "
         "knows naive cafe resume istanbul tokyo price costs un ##s ##ed ##ing ##able ##ly ##ation happi ##ness re ##make")


def vocabulary():
    characters = "abcdefghijklmnopqrstuvwxyz0123456789" + "ßøσαб日本"
    marks = ".,;:!?'\"()-$%&#+€…¿"
    pieces = [*characters, *("##" + c for c in characters), *marks, *WORDS.split()]
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(pieces)]


def tokenizer(pieces):
    numbers = {piece: number for number, piece in enumerate(pieces)}
    special = [{"id": numbers[piece], "content": piece, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False} for piece in pieces[:5]]
    ends = {piece: {"id": piece, "ids": [numbers[piece]], "tokens": [piece]} for piece in ("[CLS]", "[SEP]")}
    first, last = ({"SpecialToken": {"id": piece, "type_id": 0}} for piece in ends)
    sentence, other = ({"Sequence": {"id": which, "type_id": 0}} for which in "AB")
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": [first, sentence, last],
                           "pair": [first, sentence, last, other, last], "special_tokens": ends},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                  "vocab": numbers},
    }


def tensors(words):
    """name -> (shape, mean, deviation) of its elements."""
    shapes = {}

    def linear(name, rows, columns):
        shapes[name + ".weight"] = ([rows, columns], 0, 1.5 / columns**0.5)
        shapes[name + ".bias"] = ([rows], 0, 0.2)

    def norm(name):
        shapes[name + ".weight"] = ([HIDDEN], 1, 0.2)
        shapes[name + ".bias"] = ([HIDDEN], 0, 0.2)

    for name, rows in (("word", words), ("position", POSITIONS), ("token_type", 2)):
        shapes[f"embeddings.{name}_embeddings.weight"] = ([rows, HIDDEN], 0, 1)
    norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            linear(name + "attention.self." + part, HIDDEN, HIDDEN)
        linear(name + "attention.output.dense", HIDDEN, HIDDEN)
        norm(name + "attention.output.LayerNorm")
        linear(name + "intermediate.dense", INNER, HIDDEN)
        linear(name + "output.dense", HIDDEN, INNER)
        norm(name + "output.LayerNorm")
    return shapes


def write_safetensors(path, shapes):
    numbers = random.Random(1)
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (shape, mean, deviation) in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        elements = struct.pack(f"<{count}f", *(numbers.gauss(mean, deviation) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(elements)]}
        data += elements
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def write(folder):
    os.makedirs(folder, exist_ok=True)
    pieces = vocabulary()
    config = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute", "type_vocab_size": 2,
              "num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": HEADS, "intermediate_size": INNER,
              "max_position_embeddings": POSITIONS, "vocab_size": len(pieces), "layer_norm_eps": 1e-12}
    for name, value in (("config", config), ("tokenizer", tokenizer(pieces)), ("sentence_bert_config", {"max_seq_length": 40})):
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(value, file, ensure_ascii=False)
    write_safetensors(os.path.join(folder, "model.safetensors"), tensors(len(pieces)))


if __name__ == "__main__":
    write(sys.argv[1])
