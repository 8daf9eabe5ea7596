# Every message about a mistake has a test that meets it: check_messages.py ROOT
# A message is known by what it says and no other says; a test meets it when it expects some of that.
import os
import re
import sys

# Where messages are, what begins one, and where tests expect them.
PLACES = (
    ("dsl", r"(?<!void )\bfail(?:At)?\(|\bCompileError\(", "tests/unit"),
    ("dsl/include", r"\bstatic_assert\(", "tests/compile_fail"),
    ("ir/tile", r"\bemitOpError\(|\bemitError\(|\bwhy = ", "tests"),
)
# As much of a message as is enough to know it.
ENOUGH = 12
LITERAL = r'"((?:\\.|[^"\\\n])*)"'


def literals(text):
    """Strings of C++, those that follow each other joined."""
    whole = LITERAL.replace("((?:", "(?:(?:")
    return ["".join(re.findall(LITERAL, run)) for run in re.findall(rf"(?:{whole}\s*)+", text)]


def messages(text, begins):
    """(line, what it says) of each message."""
    for found in re.finditer(begins, text):
        end, depth = found.end(), 0
        while end < len(text) and (text[end] != ";" or depth > 0): # a lambda within has its own
            literal = re.match(LITERAL, text[end:])
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += literal.end() if literal else 1
        said = literals(text[found.start() : end])
        if said:
            yield text.count("\n", 0, found.start()) + 1, said


def grams(said):
    return {part[i : i + ENOUGH] for part in said for i in range(len(part) - ENOUGH + 1)} or {max(said, key=len)}


def untested(sources, begins, expected):
    """sources: name -> text; expected: what tests expect. Returns (name, line, what it says)."""
    found = [(name, line, said) for name, text in sorted(sources.items()) for line, said in messages(text, begins)]
    counts = {}
    for _, _, said in found:
        for gram in grams(said):
            counts[gram] = counts.get(gram, 0) + 1
    met = {gram for text in expected for gram in grams([text])} | set(expected)
    whole = "\n".join(expected)
    for name, line, said in found:
        own = {gram for gram in grams(said) if counts[gram] == 1} or grams(said)
        if not any(gram in met or (len(gram) < ENOUGH and gram in whole) for gram in own):
            yield name, line, said


def read_tree(folder, endings):
    texts = {}
    for path, _, names in os.walk(folder):
        for name in names:
            if name.endswith(endings):
                with open(os.path.join(path, name), encoding="utf-8") as file:
                    texts[os.path.relpath(os.path.join(path, name), folder)] = file.read()
    return texts


def expectations(folder):
    texts = read_tree(folder, (".cpp", ".mlir"))
    for name, text in texts.items():
        if name.endswith(".cpp"):
            yield from literals(text)
        yield from re.findall(r"// expect(?:ed-error.*?\{\{|:)(.*)", text)


if __name__ == "__main__":
    root = sys.argv[1]
    complaints, count = [], 0
    for folder, begins, tests in PLACES:
        sources = read_tree(os.path.join(root, folder), (".cpp", ".h"))
        count += sum(1 for text in sources.values() for _ in messages(text, begins))
        for name, line, said in untested(sources, begins, list(expectations(os.path.join(root, tests)))):
            complaints.append(f"{folder}/{name}:{line}: no test expects '{' … '.join(said)}'")
    print(f"{count} messages")
    if complaints:
        print("\n".join(complaints))
        sys.exit(1)
