# sectile.tune: what `sectile tune` does, from Python.
from . import _program


def tune(kernel, shape=None, dtype=None, options=None, inputs=(), device=None, budget=None, candidates=None):
    """Finds the fastest configuration of a kernel for calls with these extents, {"M": 64, "N": 4096} (typical ones for
    those not given), of that dtype, with these options and optional inputs, and keeps it in the cache: calls with shapes
    that this process has not met yet use it. `device`: "cuda:0"; the best there is if not given. `budget`: no candidate
    begins after so many seconds; `candidates`: at most so many. Returns what was measured."""
    words = ["tune", kernel, *_program.call_words(shape, dtype, options, inputs)]
    for name, value in (("--device", device), ("--budget", budget), ("--candidates", candidates)):
        if value is not None:
            words += [name, str(value)]
    return _program.ask(*words)
