# Holds minilm against Python's tokenizers and against NumPy in float64: check.py PROGRAM MODEL_DIR [OPTION...], with options
# of the program, as --device.
import os
import subprocess
import sys

import numpy
import reference
import tokenizers

# How long the difference of two vectors, of length 1, may be: some ten roundings.
BOUNDS = {"f16": 5e-3, "f32": 4e-6}


def sentences(longest):
    with open(os.path.join(os.path.dirname(__file__), "sentences.txt"), encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file]
    lines.append("under the bridge " * (longest // 3 + 1))  # does not fit
    return [line for line in lines if line]


def run(program, folder, words, text, timeout=900):
    completed = subprocess.run([program, folder, *words], input=text, capture_output=True, text=True, encoding="utf-8",
                               timeout=timeout)
    if completed.returncode:
        raise RuntimeError(f"{program} {folder} {' '.join(words)}: {completed.stderr}")
    return completed.stdout.splitlines()


def check_tokens(program, folder, lines, longest):
    """The tokens of lines, as both have them."""
    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest)
    expected = [encoding.ids for encoding in tokenizer.encode_batch(lines)]
    found = [[int(word) for word in line.split()] for line in run(program, folder, ["--tokens"], "\n".join(lines) + "\n")]
    assert len(found) == len(expected), (len(found), len(expected))
    for line, ours, theirs in zip(lines, found, expected):
        assert ours == theirs, (line, ours, theirs)
    return expected


def check_vectors(program, folder, lines, tokens, options):
    """The largest difference of a vector of ours from its exact one."""
    encoder = reference.Encoder(folder)
    exact = numpy.array([encoder.encode(sentence) for sentence in tokens])
    found = numpy.loadtxt(run(program, folder, ["--embeddings", *options], "\n".join(lines) + "\n"), ndmin=2)
    assert found.shape == exact.shape, (found.shape, exact.shape)
    lengths = numpy.linalg.norm(found, axis=1)
    assert abs(lengths - 1).max() < 1e-6, lengths
    worst = numpy.linalg.norm(found - exact, axis=1).max()
    bound = BOUNDS["f32" if "--f32" in options else "f16"]
    assert worst <= bound, f"a vector is {worst:.2e} off, beyond {bound:.0e}"
    return worst


def check(program, folder, options):
    longest = reference.longest(folder)
    lines = sentences(longest)
    tokens = check_tokens(program, folder, lines, longest)
    assert len(tokens[-1]) == longest
    worst = check_vectors(program, folder, lines, tokens, options)
    print(f"{len(lines)} sentences of {min(map(len, tokens))} to {longest} tokens: the same tokens as Python's tokenizers, vectors "
          f"at most {worst:.1e} off float64 ({' '.join(options)})")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: check.py PROGRAM MODEL_DIR [OPTION...]")
    check(sys.argv[1], sys.argv[2], sys.argv[3:])
