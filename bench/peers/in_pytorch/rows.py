# Rows at a time: softmax, norms, cross entropy.
import functools

import torch
import torch.nn.functional as F

from case import PYTORCH, peer

aten = torch.ops.aten


@peer(PYTORCH, "softmax", "log_softmax")
def _(c):
    return functools.partial(F.softmax if c.kernel == "softmax" else F.log_softmax, dim=-1), ["x"]


@peer(PYTORCH, "softmax_backward", "log_softmax_backward")
def _(c):
    function = aten._softmax_backward_data if c.kernel == "softmax_backward" else aten._log_softmax_backward_data
    return lambda y, dy: function(dy, y, -1, y.dtype), ["y", "dy"]


@peer(PYTORCH, "layer_norm")
def _(c):
    eps, extras = c.number("eps", 1e-5), c.given("w", "b")
    given = [{"w": "weight", "b": "bias"}[name] for name in extras]
    return lambda x, *rest: F.layer_norm(x, x.shape[-1:], **dict(zip(given, rest)), eps=eps), ["x", *extras]


@peer(PYTORCH, "group_norm")
def _(c):
    # The gradients' kernel knows its groups from the shape of their means.
    eps, groups = c.number("eps", 1e-5), c["mean"].shape[-1] if "mean" in c else c.integer("groups", 32)
    extras = c.given("w", "b")
    given = [{"w": "weight", "b": "bias"}[name] for name in extras]
    return lambda x, *rest: F.group_norm(x, groups, **dict(zip(given, rest)), eps=eps), ["x", *extras]


@peer(PYTORCH, "rms_norm")
def _(c):
    eps, extras = c.number("eps", 1e-6), c.given("w", "residual")

    def normalised(x, *rest):
        given = dict(zip(extras, rest))
        h = x + given["residual"] if "residual" in given else x
        y = F.rms_norm(h, h.shape[-1:], given.get("w"), eps)
        return (y, h) if "residual" in given else y

    return normalised, ["x", *extras]


@peer(PYTORCH, "cross_entropy")
def _(c):
    c.require(c.number("lse_square") == 0, "has no squared term")
    loss = functools.partial(F.cross_entropy, reduction=c.choice("reduction", "mean"), label_smoothing=c.number("label_smoothing"),
                             ignore_index=c.integer("ignore_index", -100))  # fmt: skip
    return lambda logits, targets: loss(logits.flatten(0, -2), targets.flatten().long()), ["logits", "targets"]
