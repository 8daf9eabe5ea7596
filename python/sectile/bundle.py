# sectile.bundle: what `sectile build` and `sectile bundle` do, from Python.
"""Bundles: files of compiled kernels, for programs and machines without the compiler."""
import json
import os

from . import _native, _program


def load(path):
    """Adds a bundle to this process until it ends: calls whose code it has take that, and compile nothing."""
    _native.load_bundle(os.fspath(path))


def describe(path=None):
    """What a bundle has, by kernel, or all bundles that this process has loaded: a list of dictionaries (docs/c.md)."""
    return json.loads(_native.describe_bundles(None if path is None else os.fspath(path)))


def build(path, kernel, targets, shape=None, dtype=None, options=None, inputs=()):
    """Writes a bundle with the code of a kernel for some targets, as ("sm_90a", "gfx942"): for calls with these extents,
    {"M": 64, "N": 4096}, of that dtype, with these options and optional inputs."""
    words = ["build", kernel, "--target", ",".join(targets), "--output", path]
    _program.run(*words, *_program.call_words(shape, dtype, options, inputs))


def show(path):
    """What a bundle is: identity, makers, kernels, targets, sizes."""
    return _program.ask("bundle", "show", path)


def list(path, kernel=None):
    """The code in it, that of one kernel."""
    return _program.ask("bundle", "list", path, *([] if kernel is None else [kernel]))


def verify(path):
    """Raises InvalidError, with the reason, where it is not whole or of another version."""
    _program.run("bundle", "verify", path)


def merge(path, one, other):
    """Writes a bundle with the code of two."""
    _program.run("bundle", "merge", path, one, other)


def strip(path, targets, output=None):
    """Leaves only the code for these targets, in `output` or in the bundle itself."""
    _program.run("bundle", "strip", path, "--target", ",".join(targets), *([] if output is None else ["--output", output]))
