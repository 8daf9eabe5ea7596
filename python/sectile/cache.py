# sectile.cache: what `sectile cache` does, from Python.
"""The cache of compiled kernels and measurements: what is in it, and removing it."""
from . import _program


def _words(kernel):
    return [] if kernel is None else [kernel]


def list(kernel=None):
    """Compiled kernels and measured problems, those of one kernel: a dictionary with the cache's folder and a list of each."""
    return _program.ask("cache", "list", *_words(kernel))


def clear(kernel=None):
    """Removes all kernels and measurements; those of one kernel."""
    _program.run("cache", "clear", *_words(kernel), "--yes")


def prune(limit=None, unused=None):
    """Removes what is damaged, what is more than `limit` MiB, and kernels unused for that many days."""
    words = [word for name, value in (("--limit", limit), ("--unused", unused)) if value is not None for word in (name, str(value))]
    _program.run("cache", "prune", *words)


def export(path, kernel=None):
    """Writes measurements into a .json file, or compiled kernels into any other."""
    _program.run("cache", "export", path, *_words(kernel))


def take_over(path):
    """Takes over what export() wrote. Compiled kernels will run: take over those that you trust."""
    _program.run("cache", "import", path)
