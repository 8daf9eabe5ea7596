# Code in the documents is the code of the compiled examples: check_code.py ROOT
# A block after `<!-- code: FILE REGION -->` must equal the lines of FILE between `// [REGION]` and
# `// [/REGION]`; every C++ block of the documents below must have such a line. With --update the blocks
# are rewritten instead.
import os
import re
import sys
import textwrap

# The documents, and how many blocks each has at least.
DOCUMENTS = {"README.md": 3, "docs/tutorial.md": 5, "docs/debugging.md": 3, "docs/launches.md": 5,
             "docs/dlpack.md": 1, "docs/own-kernels.md": 4, "docs/kernels.md": 2,
             "docs/benchmarks.md": 1, "docs/autotuner.md": 1, "docs/explicit.md": 5, "docs/kernels/attention.md": 1, "docs/kernels/flash.md": 4,
             "docs/kernels/recurrent.md": 2, "docs/kernels/collections.md": 1, "docs/kernels/positions.md": 4,
             "docs/kernels/pooling.md": 1, "docs/kernels/quantize.md": 1, "docs/kernels/matmul.md": 3,
             "docs/kernels/conv.md": 1, "docs/kernels/serving.md": 2, "docs/kernels/sampling.md": 1, "docs/kernels/experts.md": 1, "docs/kernels/norms.md": 1,
             "docs/kernels/elementwise.md": 1}
BLOCK = re.compile(r"(?:<!-- code: (\S+) (\S+) -->\n)?```cpp\n(.*?)```", re.S)


def region(text, name):
    found = re.search(rf"// \[{name}\]\n(.*?)[ \t]*// \[/{name}\]", text, re.S)
    return textwrap.dedent(found.group(1)) if found else None


def check(document, read):
    """read: path -> text. Returns (number of blocks, complaints)."""
    complaints = []
    blocks = BLOCK.findall(document)
    for file, name, code in blocks:
        if not file:
            complaints.append("a C++ block without '<!-- code: FILE REGION -->':\n" + code)
            continue
        expected = region(read(file), name)
        if expected is None:
            complaints.append(f"{file} has no region [{name}]")
        elif expected != code:
            complaints.append(f"differs from {file} [{name}], which is:\n{expected}")
    return len(blocks), complaints


def update(document, read):
    def code(match):
        return f"<!-- code: {match[1]} {match[2]} -->\n```cpp\n{region(read(match[1]), match[2])}```"

    return BLOCK.sub(lambda match: code(match) if match[1] else match[0], document)


def main(root, rewrite):
    def read(path):
        with open(os.path.join(root, path)) as file:
            return file.read()

    failed = False
    for document, least in DOCUMENTS.items():
        if rewrite:
            text = update(read(document), read)
            with open(os.path.join(root, document), "w") as file:
                file.write(text)
        count, complaints = check(read(document), read)
        print(f"{document}: {count} blocks")
        print("\n".join(complaints))
        failed |= bool(complaints) or count < least
    return int(failed)


def self_test():
    source = "int a;\n  // [one]\n  int b;\n    int c;\n  // [/one]\n"
    good = "text\n<!-- code: x.cpp one -->\n```cpp\nint b;\n  int c;\n```\n"
    assert check(good, lambda _: source) == (1, [])
    assert update(good.replace("int b", "old"), lambda _: source) == good
    for bad in (good.replace("int b", "int d"), good.replace("one", "two"), "```cpp\nint x;\n```\n"):
        assert len(check(bad, lambda _: source)[1]) == 1, bad


if __name__ == "__main__":
    self_test()
    sys.exit(main(sys.argv[1], "--update" in sys.argv))
