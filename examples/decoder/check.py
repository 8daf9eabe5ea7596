# Holds decoder against NumPy in float64, token by token: check.py PROGRAM MODEL_DIR [OPTION...], with options of the
# program, as --device. Prompts are random, always the same ones.
import random
import subprocess
import sys

import numpy
import reference

# How far a logit may be off, those of experts too; they are some 4 large.
BOUNDS = {"bf16": 0.35, "f16": 0.045, "f32": 5e-5}


def prompts(vocabulary, positions, few):
    """(tokens, how many are wanted) of texts that begin and end at different times."""
    numbers = random.Random(7)
    lengths = [(1, 3), (70, 6), (17, 1), (33, 5)]
    if not few:
        lengths += [(5, 9), (2, 20), (130, 4), (64, 2), (9, 15)]
    return [([numbers.randrange(vocabulary) for _ in range(length)], wanted)
            for length, wanted in lengths if length + wanted <= positions]


def run(program, folder, words, text, timeout=900):
    completed = subprocess.run([program, folder, *words], input=text, capture_output=True, text=True, encoding="utf-8",
                               timeout=timeout)
    if completed.returncode:
        raise RuntimeError(f"{program} {folder} {' '.join(words)}: {completed.stderr}")
    return completed.stdout


def parse(output):
    """[(token, logits)] of each prompt."""
    texts = [[]]
    for line in output.splitlines():
        words = line.split()
        if words:
            texts[-1].append((int(words[0]), numpy.array(words[1:], dtype=float)))
        else:
            texts.append([])
    assert not texts[-1], "the last text does not end"
    return texts[:-1]


def check(program, folder, options, few=False):
    """Compares the logits of every token that the program gives with those of the same text in float64. Greedy tokens must
    be the likeliest ones, where two are not closer than the bound lets them be. With `few` there are fewer texts, and
    shorter ones."""
    model = reference.Decoder(folder)
    asked = prompts(model.config["vocab_size"], model.config["max_position_embeddings"], few)
    text = "".join(f"{' '.join(map(str, tokens))} / {wanted}\n" for tokens, wanted in asked)
    texts = parse(run(program, folder, ["--logits", *options], text))
    assert len(texts) == len(asked), (len(texts), len(asked))
    bound = BOUNDS[options[options.index("--dtype") + 1] if "--dtype" in options else "bf16"]
    greedy = "--temperature" not in options
    worst, compared = 0.0, 0
    for (prompt, wanted), found in zip(asked, texts):
        assert len(found) == wanted, (prompt, wanted, len(found))
        exact = model.logits(prompt + [token for token, _ in found])[len(prompt) - 1 : -1]
        # A token whose experts rounding may decide changes all that follows.
        sure = numpy.minimum.accumulate(model.margins)[len(prompt) - 1 : -1] > bound / 5
        for place, (row, (token, logits)) in enumerate(zip(exact, found)):
            assert logits.shape == row.shape, (logits.shape, row.shape)
            if not sure[place]:
                continue
            difference = abs(logits - row).max()
            assert difference <= bound, f"token {place} after {len(prompt)} is {difference:.2e} off, beyond {bound:.0e}"
            assert not greedy or row.max() - row[token] <= 2 * bound, (place, token, row.argmax())
            worst = max(worst, difference)
            compared += 1
    count = sum(map(len, texts))
    # Experts in bf16 leave the fewest.
    assert compared >= 10, f"only {compared} of {count} tokens could be compared"
    print(f"{len(texts)} texts, {compared} of {count} tokens: logits at most {worst:.1e} off float64 ({' '.join(options)})", flush=True)
    return worst


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: check.py PROGRAM MODEL_DIR [OPTION...]")
    check(sys.argv[1], sys.argv[2], sys.argv[3:])
