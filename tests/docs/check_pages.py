# The pages hold together: check_pages.py ROOT [--wrap]
# Each row of a table has its header's cells and no text hangs at a table; links and their anchors
# exist; names of Sectile, headers, macros, variables of the environment and files in backticks and in
# blocks of C++ are there; docs/README.md links every page, and a page of passes/ names the files of its folder; no line is longer than
# LIMIT (rows of tables may be).
# --wrap wraps longer lines first.
import functools
import os
import pathlib
import re
import sys

LIMIT = 120
# Records of what was: their names need not be there any more.
RECORDS = {"CHANGELOG.md", "docs/status.md", "docs/performance.md", "docs/performance-attention.md", "docs/benchmarks.md"}
# Lists that several hands add lines to.
UNWRAPPED = {"CHANGELOG.md", "docs/status.md"}
# Files and variables that are not ours.
FOREIGN = {"SECTILE_INCLUDES"}
SOURCE_DIRS = ("runtime", "vgpu", "ir", "dsl", "passes", "codegen", "jit", "autotune", "kernels", "capi", "tools", "python", "packaging", "tests",
               "bench", "examples", "integrations", "docs", "cmake")
# Variables of public types, as the pages write them.
OBJECTS = {"device": "Device", "stream": "Stream", "buffer": "Buffer", "event": "Event", "graph": "Graph"}


def is_row(line):
    return line.lstrip().startswith("|")


def cells(row):
    return re.split(r"(?<!\\)\|", row.strip())[1:-1]


def prose(text):
    """(number, line) of what is not in a block of code."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and (fence is None or line.strip().startswith(fence)):
            fence = None if fence else mark[1]
        elif fence is None:
            yield number, line


def check_tables(text):
    table, width, last = 0, 0, 0
    for number, line in prose(text):
        if number != last + 1:
            table = 0
        last = number
        if is_row(line):
            table += 1
            if not re.search(r"(?<!\\)\|\s*$", line):
                yield number, "a row of a table ends in |"
            elif table == 1:
                width = len(cells(line))
            elif table == 2 and not all(re.fullmatch(r"\s*:?-+:?\s*", cell) for cell in cells(line)):
                yield number, "a table's second line is | --- |: this row is outside of any table"
            if table > 1 and len(cells(line)) != width:
                yield number, f"a row of {len(cells(line))} cells in a table of {width}"
        else:
            if table == 1:
                yield number - 1, "a row outside of any table"
            if table and line.strip():
                yield number, "text that touches a table becomes a row: leave a blank line"
            table = 0
    if table == 1:
        yield last, "a row outside of any table"


def slug(heading):
    """An anchor as GitHub makes it."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(text):
    found, seen = set(re.findall(r'<a (?:id|name)="([^"]+)"', text)), {}
    for _, line in prose(text):
        heading = re.match(r"#+ +(.*?)(?: +#+)?$", line)
        if heading:
            name = slug(heading[1])
            count = seen.get(name, 0)
            seen[name] = count + 1
            found.add(f"{name}-{count}" if count else name)
    return found


def check_links(path, text, read):
    """read: path -> text, True of other files and folders, or None."""
    for number, line in prose(text):
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"\w+:", target):
                continue
            file, _, anchor = target.partition("#")
            other = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
            found = text if other == path else read(other)
            if found is None:
                yield number, f"there is no {other}"
            elif anchor and anchor not in anchors(found if isinstance(found, str) else ""):
                yield number, f"{other} has no heading for #{anchor}"


class Tree:
    """What the repository declares."""

    def __init__(self, headers, source, files):
        """headers: path -> text of all; source: all text; files: paths."""
        self.files = files | {os.path.splitext(file)[0] for file in files}
        self.names = {os.path.basename(file) for file in files}
        self.headers = {os.path.basename(path) for path in headers if "/include/sectile/" in path}
        code = {path: re.sub(r"//[^\n]*", "", text) for path, text in headers.items()}
        self.words = set(re.findall(r"\w+", "\n".join(text for path, text in code.items() if "/include/sectile/" in path or path.endswith(".h.in"))))
        self.capitals = set(re.findall(r"\bSECTILE_\w+", source))
        # What the types of one name have together, each with what its bases have.
        own, bases = {}, {}
        types = r"^(?:template <[^\n]*> *)?(?:class|struct|enum class) (?:alignas\(\w+\) )?(\w+)(?!::)([^;{]*){([^\n]*}|.*?^});"
        for name, head, body in re.findall(types, "\n".join(code.values()), re.M | re.S):
            own.setdefault(name, set()).update(re.findall(r"\w+", body))
            bases.setdefault(name, set()).update(re.findall(r"\w+", head))

        def members(name, seen):
            seen.add(name)
            return own[name].union(*(members(base, seen) for base in bases[name] if base in own and base not in seen))

        self.members = {name: members(name, set()) for name in own}
        if "Kernel" in own:
            self.members["Kernel"] |= self.members["TypedKernel"]

    def complaint(self, span):
        for name in re.findall(r"(?<![\w:])(?:sc|sectile)::(\w+)", span):
            if name not in self.words:
                return f"no public header declares {name}"
        for header in re.findall(r"<sectile/([\w.]+)>", span):
            if header not in self.headers:
                return f"there is no public header sectile/{header}"
        for name in re.findall(r"\bSECTILE_[A-Z_0-9]+\b", span):
            if name not in self.capitals and name not in FOREIGN:
                return f"nothing reads {name}"
        for owner, member in re.findall(r"(?<![\w:.>])(\w+)(?:::|\.)(\w+)(?=\()", span):
            owner = OBJECTS.get(owner, owner)
            if owner in self.members and member not in self.members[owner]:
                return f"{owner} has no {member}"
        for owner, member in re.findall(r"\b([A-Z]\w+)::(\w+)", span):
            if owner in self.members and member not in self.members[owner]:
                return f"{owner} has no {member}"
        file = re.fullmatch(rf"((?:{'|'.join(SOURCE_DIRS)})/[\w./-]+)", span)
        if file and "NAME" not in span and file[1].rstrip("/") not in self.files and not any(name.startswith(file[1].rstrip("/") + "/") for name in self.files):
            return f"there is no {file[1]}"
        if re.fullmatch(r"[A-Z]\w+\.(h|cpp|td|def)", span) and span not in self.names:
            return f"there is no file {span}"
        return None


def code(text):
    """(number, line) of blocks of C++."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            inside = line.strip() == "```cpp"
        elif inside:
            yield number, line


def check_names(text, tree):
    for number, line in code(text):
        if found := tree.complaint(line):
            yield number, found
    for number, line in prose(text):
        for span in re.findall(r"`([^`]+)`", line):
            if found := tree.complaint(span):
                yield number, f"`{span}`: {found}"


def check_lines(text):
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > LIMIT and not is_row(line) and " " in line.strip():
            yield number, f"{len(line)} characters in a line"


def wrap(text):
    """The text with paragraphs that have a line beyond LIMIT wrapped anew."""
    inside = {number for number, _ in prose(text)}
    lines, result, i = text.split("\n"), [], 0

    def starts(line):
        return not line.strip() or is_row(line) or re.match(r"\s*([-*+]|\d+\.)\s|\s*#|\s*<|\s*>|\s*```|\s*!\[", line)

    while i < len(lines):
        end = i + 1
        item = re.match(r"(\s*)((?:[-*+]|\d+\.)\s+)?", lines[i])
        plain = i + 1 in inside and lines[i].strip() and (item[2] or not starts(lines[i]))
        if plain:
            while end < len(lines) and end + 1 in inside and not starts(lines[end]):
                end += 1
        if not plain or max(map(len, lines[i:end])) <= LIMIT:
            result += lines[i:end]
        else:
            indent = item[1] + " " * len(item[2] or "")
            words = re.findall(r"(?:`[^`]*`|\[[^\]]*\]\([^)]*\)|\S)+", " ".join(lines[i:end])[len(item[0]) :])
            line = [item[0] + words[0]]
            for word in words[1:]:
                if len(" ".join([*line, word])) > LIMIT:
                    # A line must not begin as an item of a list does.
                    kept = len(line) - 1 if starts(word + " ") and len(line) > 1 else len(line)
                    result.append(" ".join(line[:kept]))
                    line = [*line[kept:], word]
                    line[0] = indent + line[0]
                else:
                    line.append(word)
            result.append(" ".join(line))
        i = end
    return "\n".join(result)


def tree_of(root):
    headers, source, files = {}, [], set()
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith((".", "build"))]
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), root)
            files.add(path)
            if name.endswith((".h", ".cpp", ".txt", ".py", ".cmake", ".in", ".def", ".json")) or name == "dev":
                text = pathlib.Path(root, path).read_text(errors="replace")
                source.append(text)
                if name.endswith((".h", ".h.in")):
                    headers[path] = text
    return Tree(headers, "\n".join(source), files)


def main(root, rewrap):
    root = pathlib.Path(root)
    tree = tree_of(root)

    @functools.cache
    def read(path):
        file = root / path
        return file.read_text() if file.suffix == ".md" and file.exists() else (file.exists() or None)

    pages = sorted(str(page.relative_to(root)) for folder in ("docs", "passes") for page in (root / folder).rglob("*.md"))
    pages = sorted(page.name for page in root.glob("*.md")) + pages
    found = []
    for path in pages:
        text = read(path)
        if rewrap and path not in UNWRAPPED and wrap(text) != text:
            text = wrap(text)
            (root / path).write_text(text)
        checks = [check_tables(text), check_links(path, text, read)]
        if path not in RECORDS:
            checks.append(check_names(text, tree))
        if path not in UNWRAPPED:
            checks.append(check_lines(text))
        found += [f"{path}:{number}: {what}" for check in checks for number, what in sorted(check)]
    index = (root / "docs/README.md").read_text()
    found += [f"docs/README.md: no link to {path}" for path in pages
              if path.startswith("docs/") and path != "docs/README.md" and f"]({path.removeprefix('docs/')})" not in index]
    for path in pages:
        if path.startswith("passes/"):
            found += [f"{path}: does not name {file.name}" for file in sorted((root / path).parent.glob("*.*"))
                      if file.suffix in (".h", ".cpp", ".td") and file.stem not in re.findall(r"\w+", read(path))]
    print("\n".join(found) or f"{len(pages)} pages")
    return int(bool(found) or len(pages) < 30)


def self_test():
    table = "| a | b |\n| --- | --- |\n| 1 | `x \\| y` |\n"
    assert not list(check_tables(table + "\ntext\n"))
    for bad in (table + "| 1 |\n", table + "| 1 | 2\n", table + "\n| 1 | 2 |\n", table + "text\n", "| a | b |\n"):
        assert list(check_tables(bad)), bad

    pages = {"docs/a.md": "# One `two`, three\n# x\n# x\n", "docs/b.svg": True}
    good = "[a](a.md) [b](a.md#one-two-three) [c](#here) [d](a.md#x-1) [p](b.svg) [w](https://x.y)\n## Here\n"
    assert not list(check_links("docs/c.md", good, pages.get))
    for bad in ("[a](d.md)", "[a](a.md#two)", "[a](#there)", "[a](a.md#x-2)"):
        assert list(check_links("docs/c.md", bad, pages.get)), bad

    header = "// gone()\nnamespace sectile {\nstruct Base {\n  void open();\n};\nclass Device : public Base {\n  void reset() const;\n};\nint load(int x);\n}\n"
    tree = Tree({"runtime/include/sectile/device.h": header}, 'getenv("SECTILE_DEVICE")', {"ir/Target.h"})
    for name in ("sc::load(x)", "<sectile/device.h>", "SECTILE_DEVICE=x", "Device::reset", "device.reset()", "device.open()", "ir/Target.h",
                 "Target.h", "ir/", "other.reset()"):
        assert not tree.complaint(name), name
    for name in ("sc::gone(x)", "<sectile/gone.h>", "SECTILE_GONE", "Device::gone", "device.gone()", "ir/Gone.h", "Gone.h",
                 "sectile::Device::gone"):
        assert tree.complaint(name), name

    assert not list(check_names("```cpp\nsc::load(x);\n```\n```text\nsc::gone(x);\n```\n", tree))
    assert list(check_names("```cpp\nsc::gone(x);\n```\n", tree)) and list(check_names("the `sc::gone`\n", tree))

    word = "word " * 30
    assert list(check_lines(word)) and not list(check_lines(f"| {word} |")) and not list(check_lines("x" * 130))
    wrapped = wrap(f"- {word}\n  and `a b`\n- next\n\n```\n{word}\n```\n")
    assert wrapped.split("\n")[1].startswith("  word") and wrapped.endswith(f"- next\n\n```\n{word}\n```\n"), wrapped


if __name__ == "__main__":
    self_test()
    sys.exit(main(sys.argv[1], "--wrap" in sys.argv))
