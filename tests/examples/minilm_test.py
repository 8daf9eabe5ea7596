# examples/minilm without the compiler, on a small random model: its bundle has the code of all batches, it needs no LLVM, and
# what is wrong is refused in one sentence. minilm_test.py EXAMPLE MINILM MINILM_COMPILES SECTILE FAKE_CUDA
import functools
import json
import pathlib
import re
import shutil
import subprocess
import sys

import programs
from programs import output

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import script  # noqa: E402

example, minilm, compiles, sectile, _ = sys.argv[1:]
sys.path.insert(0, example)
import tiny_model  # noqa: E402

SMALL = ("--batch", "6", "--batch-tokens", "200")

refused = functools.partial(programs.refused, name="minilm", program=minilm)


def build_bundle(*options):
    with open("calls.txt", "w") as file:
        file.write(output(minilm, "model", "--calls", *SMALL, *options))
    output(sectile, "build", "--exact", "--file", "calls.txt", "--target", "sm_80,sm_90a", "-o", "app.sectile")


def test_a_bundle_has_the_code_of_every_batch():
    tiny_model.write("model")
    for options in ((), ("--f32",)):
        build_bundle(*options)
        for capability in ("80", "90"):
            output(minilm, "model", "--device", "cuda:0", "--bundle", "app.sectile", "--prepare", *SMALL, *options,
                   FAKE_CUDA_CAPABILITY=capability)
    # The bundle of f32 has no code of f16.
    refused("model", "--device", "cuda:0", "--bundle", "app.sectile", "--prepare", *SMALL, says="add it to the bundle",
            FAKE_CUDA_CAPABILITY="90")
    refused("model", "--device", "cuda:0", "--prepare", *SMALL, says="this program has no code for it and no compiler",
            FAKE_CUDA_CAPABILITY="90")
    # Beside the model it is found without being named.
    build_bundle()
    shutil.move("app.sectile", "model/minilm.sectile")
    output(minilm, "model", "--device", "cuda:0", "--prepare", *SMALL, FAKE_CUDA_CAPABILITY="90")


def test_it_needs_no_compiler():
    libraries = output("ldd", minilm)
    assert "libsectile_kernels" in libraries and not re.search(r"libsectile\.so|LLVM|MLIR", libraries), libraries


def test_without_a_gpu():
    tiny_model.write("model")
    refused("model", "the cat", says="no GPU was found (cuda:0: no CUDA driver: nowhere/libcuda.so", SECTILE_CUDA_LIBRARY="nowhere/libcuda.so",
            SECTILE_HIP_LIBRARY="nowhere/libhip.so")


def test_results_do_not_depend_on_the_batch():
    tiny_model.write("model")
    # More tokens than a batch takes, sentences of all lengths, and in the end an empty one.
    text = "".join("the cat lived under the bridge " * (i % 7) + "on the mat\n" for i in range(24))
    device = ("--embeddings", "--f32", "--device", "virtual:sm_80")
    alone = output(compiles, "model", *device, "--batch", "1", text=text).splitlines()
    together = output(compiles, "model", *device, "--batch", "7", "--batch-tokens", "100", text=text).splitlines()
    assert len(alone) == len(together) == 24
    for one, other in zip(alone, together):
        difference = max(abs(float(x) - float(y)) for x, y in zip(one.split(), other.split()))
        assert difference < 1e-5, difference
    lines = output(compiles, "model", "--device", "virtual:sm_80", "the cat", "a dog", "the cat").splitlines()
    assert lines[0] == "  1  the cat" and len(lines) == 8, lines
    cosines = [[float(word) for word in line.split()[1:]] for line in lines[5:]]
    assert cosines[0][2] == cosines[0][0] == 1 and cosines[0][1] == cosines[1][0] < 1, cosines


def change(name, **values):
    path = f"model/{name}.json"
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    content.update(values)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)


def broken(says, **changes):
    """Refused with these changes of the model's files: those of config.json, or bytes of another file."""
    tiny_model.write("model")
    for name, values in changes.items():
        change(name, **values)
    refused("model", "--device", "virtual:sm_80", "the cat", says=says, program=compiles)


def test_wrong_models_are_refused():
    refused("nowhere", "--tokens", "a", says="nowhere/config.json cannot be opened")
    broken("is not of a BERT", config={"hidden_act": "relu"})
    broken("impossible extents", config={"num_attention_heads": 3})
    broken("no model's config.json", config={"hidden_size": "wide"})
    broken("is [152, 64], but config.json asks for [152, 32]", config={"hidden_size": 32})
    broken("has no tensor 'encoder.layer.2.attention.self.query.weight'", config={"num_hidden_layers": 3})
    broken("has tokens up to", config={"vocab_size": 10})
    broken("is not the tokenizer of an uncased BERT", tokenizer={"pre_tokenizer": {"type": "ByteLevel"}})
    broken("is no tokenizer", tokenizer={"model": {"type": "WordPiece"}})
    broken("says no max_seq_length", sentence_bert_config={"max_seq_length": None})
    broken("a sentence takes 2 tokens", sentence_bert_config={"max_seq_length": 1})


def test_wrong_weights_are_refused():
    tiny_model.write("model")
    path = pathlib.Path("model/model.safetensors")
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    name = "embeddings.LayerNorm.bias"

    def entry(**values):
        text = json.dumps({**header, name: {**header[name], **values}}).encode()
        return len(text).to_bytes(8, "little") + text + whole[8 + length :]

    begin, end = header[name]["data_offsets"]
    for content, says in (
        (b"1234", "fewer than 8 bytes"),
        (b"\xff" * 7 + b"\x7f" + whole[8:], "its header has"),
        (whole[:1000], "its header has"),
        (whole[:-10000], "is truncated"),
        (whole.replace(b"{", b"[", 1), "has no valid header"),
        (entry(dtype="F16"), "has 256 bytes; F16 [64] takes 128"),
        (entry(dtype="I16", data_offsets=[begin, begin + 128]), "is I16; this program reads F32, F16 and BF16"),
        (entry(data_offsets=[end, begin]), "ends before it begins"),
        (entry(data_offsets=[-4, 4]), "ends before it begins"),
    ):
        path.write_bytes(content)
        refused("model", "--device", "virtual:sm_80", "the cat", says=says, program=compiles)


def test_words():
    tiny_model.write("model")
    assert "usage: minilm" in output(minilm, "--help")
    for words, says in (
        ((), "MODEL_DIR is missing"),
        (("model", "--none"), "no option --none"),
        (("model", "--device"), "--device needs a value"),
        (("model", "--batch", "0"), "from 1 to 1048576, not '0'"),
        (("model", "--batch-tokens", "12x"), "not '12x'"),
    ):
        refused(*words, says=says, status=2)
    refused("model", "--device", "cuda:0", says="there are no sentences")
    refused("model", "--bundle", "nothing.sectile", "a", says="nothing.sectile")
    # What follows -- is a sentence; 40 tokens is the model's limit, 8 that of a batch.
    assert output(minilm, "model", "--tokens", "--", "--none").count(" ") > 2
    assert len(output(minilm, "model", "--tokens", "cat " * 100).split()) == 40
    assert len(output(minilm, "model", "--batch-tokens", "8", "--tokens", "cat " * 100).split()) == 8
    # Bytes that are not UTF-8 are no reason to stop.
    raw = subprocess.run([minilm, "model", "--tokens"], input=b"c\xff\xc3at\n", capture_output=True)
    assert raw.stdout.decode() == output(minilm, "model", "--tokens", "cat"), raw


script.main(globals())
