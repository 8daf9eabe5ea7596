# docs/kernels.md names the whole library: check_kernels.py SECTILE ROOT
# Each registered kernel is in one row of the table of families, each name there is registered, and
# the page of its row names it (or what it is the backward kernel of).
import os
import re
import subprocess
import sys


def families(text):
    """(what, names, page) of each row of the table below the heading "Families"."""
    section = re.search(r"^## Families\n(.*?)^## ", text, re.M | re.S)[1]
    rows = []
    for line in section.splitlines():
        if line.startswith("|") and not re.match(r"\| (What \||---)", line):
            what, names, page = (cell.strip() for cell in line.strip("|").split("|"))
            rows.append((what, re.findall(r"`(\w+)`", names), re.search(r"\((.*)\)", page)[1]))
    return rows


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


def main():
    sectile, root = sys.argv[1:]
    listed = subprocess.run([sectile, "list"], capture_output=True, text=True, check=True).stdout
    registered = [line.split()[0] for line in listed.splitlines()]
    docs = os.path.join(root, "docs")
    pages = {}
    for page in ["kernels.md", *(f"kernels/{name}" for name in os.listdir(os.path.join(docs, "kernels")))]:
        with open(os.path.join(docs, page)) as file:
            pages[page] = file.read()
    text = pages["kernels.md"]
    # It can fail.
    assert complaints(text, [*registered, "no_such_kernel"], pages)
    assert complaints(text, registered[1:], pages)
    found = complaints(text, registered, pages)
    print("\n".join(found) or f"{len(registered)} kernels")
    sys.exit(1 if found else 0)


main()
