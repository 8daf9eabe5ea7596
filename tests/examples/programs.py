# Runs programs of examples/ with the fake CUDA driver, whose path is the test's last argument.
import os
import subprocess
import sys


def run(*words, text="", **environment):
    return subprocess.run(words, input=text, capture_output=True, text=True, encoding="utf-8",
                          env={**os.environ, "SECTILE_CUDA_LIBRARY": sys.argv[-1], **environment})


def output(*words, **environment):
    completed = run(*words, **environment)
    assert completed.returncode == 0, (words, completed.stderr)
    return completed.stdout


def refused(*words, name, program, says, status=1, **environment):
    """`name`: what its messages begin with."""
    completed = run(program, *words, **environment)
    assert completed.returncode == status, (words, completed.returncode, completed.stderr)
    assert completed.stderr.startswith(f"{name}: ") and says in completed.stderr, (words, completed.stderr)
