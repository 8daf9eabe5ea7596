# Reductions, scans, sorts, histograms.
import functools

import torch

from case import PYTORCH, peer

REDUCTIONS = {name: getattr(torch, {"max": "amax", "min": "amin"}.get(name, name))
              for name in ("sum", "mean", "prod", "max", "min", "argmax", "argmin")}  # fmt: skip


@peer(PYTORCH, "reduce")
def _(c):
    return functools.partial(REDUCTIONS[c.choice("op", "sum")], dim=-1), ["x"]


@peer(PYTORCH, "scan")
def _(c):
    function, back = functools.partial(getattr(torch, c.choice("op", "cumsum")), dim=-1), c.flag("reverse")

    def scan(x):
        y = function(x.flip(-1) if back else x)
        y = y if torch.is_tensor(y) else y[0]
        return y.flip(-1) if back else y

    return scan, ["x"]


@peer(PYTORCH, "sort", "argsort")
def _(c):
    function = torch.sort if c.kernel == "sort" else torch.argsort
    return functools.partial(function, stable=True, descending=c.flag("descending")), ["x"]


@peer(PYTORCH, "topk")
def _(c):
    return functools.partial(torch.topk, k=c.integer("k", 8), largest=c.choice("largest") != "false"), ["x"]


@peer(PYTORCH, "histogram")
def _(c):
    bins = c.integer("bins", 256)
    return lambda x: torch.bincount(torch.where((x >= 0) & (x < bins), x, bins), minlength=bins + 1)[:bins], ["x"]
