# The commands that the documentation shows are ones that `sectile` takes: check_commands.py SECTILE ROOT
# In ```sh blocks and `code` of the pages each command, option, kernel, and the names after
# --in, --out, --opt and --config are those that the program's help and `sectile list` know.
import functools
import pathlib
import re
import shlex
import subprocess
import sys

GROUPS = ("bundle", "cache")


def lines(text):
    """What a reader would type, without continuations and remarks."""
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            if re.match(r"sectile \w", line):
                yield line
    yield from re.findall(r"`(sectile [a-z][^`]*)`", text)


@functools.cache
def told(sectile, *words):
    """What the program says to these words, None where it takes them for wrong."""
    result = subprocess.run([sectile, *words], capture_output=True, text=True)
    return result.stdout if result.returncode == 0 else None


def complaint(line, sectile):
    words = shlex.split(line, comments=True)[1:]
    for operator in ("|", ">"):  # of the shell: what follows is not for sectile
        if operator in words:
            words = words[: words.index(operator)]
    count = 2 if words[0] in GROUPS and len(words) > 1 else 1
    command, rest = words[:count], words[count:]
    if command[0] == "help":
        return None
    usage = told(sectile, "help", *command)
    if usage is None:
        return f"there is no command {' '.join(command)}"
    kernel = rest[0] if rest and re.fullmatch(r"[a-z]\w*", rest[0]) else None
    if kernel and command[0] in ("bench", "completion"):
        suites = usage.split("\n  --")[0]
        return None if re.search(rf"\b{kernel}\b", suites) else f"{command[0]} knows no {kernel}"
    about = told(sectile, "list", kernel) if kernel else None
    if kernel and about is None:
        return f"there is no kernel {kernel}"
    option = None
    for word in rest[1 if kernel else 0 :]:
        if word.startswith("-"):
            option = word
            if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", usage):
                return f"{' '.join(command)} has no option {word}"
        elif about and option in ("--in", "--out", "--opt", "--config"):
            name = word.split("=")[0]
            if "=" in word and not re.search(rf"^  {name} ", about, re.M):
                return f"{kernel} has no {name} for {option}"
    return None


def main():
    sectile, root = sys.argv[1:]
    # It can fail.
    for wrong in (
        "sectile rum softmax",
        "sectile bench softmax",
        "sectile completion fish > file",
        "sectile run softmux",
        "sectile run softmax --inn x=x.npy",
        "sectile run softmax --in z=x.npy",
        "sectile cache lost",
    ):
        assert complaint(wrong, sectile), wrong
    pages = [*pathlib.Path(root).glob("*.md"), *pathlib.Path(root, "docs").rglob("*.md")]
    checked, found = 0, []
    for page in pages:
        text = page.read_text()
        for line in lines(text):
            checked += 1
            if what := complaint(line, sectile):
                found.append(f"{page}: `{line}`: {what}")
    print("\n".join(found) or f"{checked} commands")
    assert checked > 20, "the documentation shows more commands than that"
    sys.exit(1 if found else 0)


main()
