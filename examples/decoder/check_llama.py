# Holds decoder against llama.cpp on the CPU: check_llama.py PROGRAM MODEL_DIR FILE.gguf,... TEXTS TOKENS [OPTION...]. The
# folder and a file of f32 weights are made by from_gguf.py, of the quantised file. So many of the texts below are continued by
# so many tokens; options are the program's. Needs the package llama-cpp-python. Both take the likeliest token each time. With
# f32 weights, llama.cpp's results are f32 except that it rounds what gelu is taken of to f16. With quantised weights it also
# rounds what they multiply to 8 bits.
import sys

import check
import llama_cpp
import numpy

TEXTS = ["The capital of France is", "Water boils at a temperature of", "The opposite of hot is", "def add(a, b):\n    return",
         "Once upon a time, there was a"]
# How far a logit may be from llama.cpp's, by the program's precision; they are up to some 30 large.
BOUNDS = {"f32": 0.2, "bf16": 1.5}
# And how far beyond that where llama.cpp's weights are quantised.
QUANTISED = 3


class Llama:
    def __init__(self, path, context):
        self.model = llama_cpp.Llama(path, n_ctx=context, n_batch=context, n_threads=2, n_threads_batch=2, verbose=False, type_k=0,
                                     type_v=0)
        # LLAMA_FTYPE_ALL_F32 is 0.
        self.is_plain = self.model.metadata.get("general.file_type") == "0"

    def tokens(self, text):
        return self.model.tokenize(text.encode(), add_bos=True)

    def follow(self, prompt, text):
        """The logits [V] by which each token of `text` would be drawn after the prompt and those before it."""
        self.model.reset()
        given = prompt
        for token in text:
            self.model.eval(given)
            yield numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(self.model.ctx, -1), shape=(self.model.n_vocab(),))
            given = [token]


def check_texts(program, folder, paths, options, texts, wanted):
    """Each token must be llama.cpp's likeliest one after the same tokens, unless two are closer there than rounding may move
    them; and all logits must be close."""
    prompts = [Llama(paths[0], 1024).tokens(text) for text in texts]
    assert all(len(prompt) > 1 for prompt in prompts), prompts
    found = check.parse(check.run(program, folder, ["--logits", *options],
                                  "".join(f"{' '.join(map(str, prompt))} / {wanted}\n" for prompt in prompts), timeout=7200))
    assert len(found) == len(prompts), (len(found), len(prompts))
    return [compare(Llama(path, 1024), prompts, found, options) for path in paths]


def compare(llama, prompts, found, options):
    """How many tokens are llama.cpp's likeliest ones, and of how many."""
    bound = BOUNDS[options[options.index("--dtype") + 1] if "--dtype" in options else "bf16"]
    if not llama.is_plain:
        bound += QUANTISED
    worst, equal, count = 0.0, 0, 0
    for prompt, text in zip(prompts, found):
        exact_rows = llama.follow(prompt, [token for token, _ in text])
        for place, ((token, logits), exact) in enumerate(zip(text, exact_rows)):
            difference = abs(logits - exact).max()
            assert difference <= bound, f"token {place} after {prompt}: a logit is {difference:.2g} off, beyond {bound}"
            behind = exact.max() - exact[token]
            assert behind <= 2 * difference, f"token {place} after {prompt}: {token}, which is {behind:.2g} behind {exact.argmax()}"
            worst, equal, count = max(worst, difference), equal + int(behind == 0), count + 1
    print(f"{len(found)} texts, {equal} of {count} tokens are llama.cpp's likeliest ones: logits at most {worst:.2g} off its "
          f"({'f32' if llama.is_plain else 'quantised'} weights; {' '.join(options)})", flush=True)
    return equal, count


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit("usage: check_llama.py PROGRAM MODEL_DIR FILE.gguf,... TEXTS TOKENS [OPTION...]")
    check_texts(*sys.argv[1:3], sys.argv[3].split(","), sys.argv[6:], TEXTS[: int(sys.argv[4])], int(sys.argv[5]))
