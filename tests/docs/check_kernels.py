# docs/kernels.md names the whole library: check_kernels.py SECTILE ROOT
# It and README.md say how many kernels there are. Each registered kernel is in one row of the table of families, each name there is registered, and
# the page of its row names it (or what it is the backward kernel of). Each is in one row of the
# table of options too, which names the options that `sectile list` gives for all kernels of the row.
import json
import os
import re
import subprocess
import sys


def table(text, heading):
    """The cells of each row of the table below a heading."""
    section = re.search(rf"^## {heading}\n(.*?)^## ", text, re.M | re.S)[1]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def quoted(cell):
    return re.findall(r"`(\w+)`", cell)


def families(text):
    """(what, names, page) of each row of the table of families."""
    return [(what, quoted(names), re.search(r"\((.*)\)", page)[1])
            for what, names, page in table(text, "Families")]


def option_complaints(text, options):
    """`options`: kernel -> names of its options. "those of `matmul`" stands for matmul's."""
    found, seen = [], set()
    for names, _, given in table(text, "Arguments and options"):
        others = r"those of `(\w+)`"
        expected = set(quoted(re.sub(others, "", given)))
        for name in re.findall(others, given):
            expected |= set(options[name])
        for name in quoted(names):
            if name in seen:
                found.append(f"{name} is in two rows of options")
            seen.add(name)
            if name not in options:
                found.append(f"{name}, in the table of options, is no kernel of the library")
            elif expected != set(options[name]):
                found.append(f"{name} has the options {sorted(options[name])}, "
                             f"but its row says {sorted(expected)}")
    return found + [f"{name} is in no row of options" for name in options if name not in seen]


def complaints(text, registered, pages):
    """`pages`: path below docs/ -> text."""
    found, seen = [], set()
    for what, names, page in families(text):
        for name in names:
            if name in seen:
                found.append(f"{name} is in two rows")
            seen.add(name)
            if name not in registered:
                found.append(f"{what}: {name} is no kernel of the library")
            elif not re.search(rf"\b{name.removesuffix('_backward')}\b", pages.get(page, "")):
                found.append(f"{page} does not name {name}")
    return found + [f"{name} is in no family" for name in registered if name not in seen]


def number_complaints(texts, count):
    """`texts`: page -> text, each of which says how many kernels there are."""
    found = []
    for page, text in texts.items():
        said = re.search(r"(\d+) kernels\b", text)
        if not said or int(said[1]) != count:
            found.append(f"{page} should say that there are {count} kernels" + (f", not {said[1]}" if said else ""))
    return found


def options_of(listing):
    """Of what `sectile list NAME` prints."""
    section = re.search(r"^options \(.*?\):(.*?)^configuration \(", listing, re.M | re.S)[1]
    return re.findall(r"^  (\w+) ", section, re.M)


def main():
    sectile, root = sys.argv[1:]

    def listing(*name):
        return subprocess.run([sectile, "list", *name], capture_output=True, text=True,
                              check=True).stdout

    registered = [kernel["name"] for kernel in json.loads(listing("--json"))]
    options = {name: options_of(listing(name)) for name in registered}
    docs = os.path.join(root, "docs")
    pages = {}
    for page in ["kernels.md", *(f"kernels/{name}" for name in os.listdir(os.path.join(docs, "kernels")))]:
        with open(os.path.join(docs, page)) as file:
            pages[page] = file.read()
    text = pages["kernels.md"]
    with open(os.path.join(root, "README.md")) as file:
        counting = {"README.md": file.read(), "docs/kernels.md": text}
    # It can fail.
    assert len(number_complaints(counting, len(registered) + 1)) == len(counting)
    assert complaints(text, [*registered, "no_such_kernel"], pages)
    assert complaints(text, registered[1:], pages)
    assert option_complaints(text, {**options, "no_such_kernel": []})
    for name in registered:
        assert option_complaints(text, {**options, name: [*options[name], "no_such_option"]})
        assert not options[name] or option_complaints(text, {**options, name: options[name][1:]})
    found = (complaints(text, registered, pages) + option_complaints(text, options)
             + number_complaints(counting, len(registered)))
    print("\n".join(found) or f"{len(registered)} kernels, {sum(map(len, options.values()))} options")
    sys.exit(1 if found else 0)


main()
