# Completions and the man page, which the build makes from the help.
# generated_test.py SECTILE SHARE LIBRARY: the folder that holds them; a library of kernels.
import json
import os
import shutil
import subprocess
import sys

from cli import SECTILE, done, main, refused

SHARE, LIBRARY = map(os.path.abspath, sys.argv[2:4])
BASH = os.path.join(SHARE, "bash-completion/completions/sectile")
ZSH = os.path.join(SHARE, "zsh/site-functions/_sectile")
MAN = os.path.join(SHARE, "man/man1/sectile.1")


def read(path):
    with open(path) as file:
        return file.read()


def complete(*words):
    """What bash offers for the last word."""
    script = f"""
source {BASH}
COMP_WORDS=({" ".join(map(repr, words))})
COMP_CWORD={len(words) - 1}
_sectile
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    path = os.path.dirname(SECTILE) + os.pathsep + os.environ["PATH"]
    result = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, env={**os.environ, "PATH": path}
    )
    assert not result.stderr, result.stderr
    return result.stdout.split()


def test_files_are_what_the_program_says():
    for path, *words in ((BASH, "completion", "bash"), (ZSH, "completion", "zsh"), (MAN, "man")):
        assert read(path) == done(*words).out, path
    refused("completion", "fish", says=("'fish'", "bash, zsh"))
    assert "completion" not in done("help").out


def test_bash():
    subprocess.run(["bash", "-n", BASH], check=True)
    assert complete("sectile", "co") == ["compile"]
    assert complete("sectile", "cache", "pr") == ["prune"]
    assert complete("sectile", "cache", "clear", "--y") == ["--yes"]
    assert complete("sectile", "compile", "layer_norm_b") == ["layer_norm_backward"]
    assert complete("sectile", "compile", "matmul", "--target", "sm_9") == ["sm_90", "sm_90a"]
    assert complete("sectile", "run", "matmul", "--device", "interp") == ["interpreter"]
    assert complete("sectile", "compile", "matmul", "--e") == ["--emit"]


def test_bash_looks_past_load():
    assert complete("sectile", "--lo") == ["--load"]
    assert complete("sectile", "--load", "libmine.so", "cache", "pr") == ["prune"]
    assert complete("sectile", "--load", LIBRARY, "compile", "scale_r") == ["scale_rows"]
    assert complete("sectile", "compile", "--load", LIBRARY, "scale_r") == ["scale_rows"]
    assert complete("sectile", "--load", MAN[:-2]) == [MAN]


def test_zsh():
    if shutil.which("zsh"):
        subprocess.run(["zsh", "-n", ZSH], check=True)
    assert read(ZSH).startswith("#compdef sectile\n")


def test_everything_is_there():
    man, bash, zsh = read(MAN).replace("\\-", "-"), read(BASH), read(ZSH)
    for command in json.loads(done("help", "--json").out):
        assert f".SS sectile {command['name']}" in man and command["example"] in man, command["name"]
        for text in (bash, zsh):
            assert f"'{command['name']}')" in text, command["name"]
            assert all(option["name"] in text for option in command["options"]), command["name"]


def test_man():
    if not shutil.which("groff"):
        return
    result = subprocess.run(["groff", "-man", "-ww", "-Tutf8", MAN], capture_output=True, text=True, check=True)
    assert not result.stderr, result.stderr
    assert "sectile compile matmul" in result.stdout


main(globals())
