# Rows at a time: softmax, norms, cross entropy.
import functools

import torch
import torch.nn.functional as F

from torch.utils.checkpoint import checkpoint

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
    c.require("class_weights" not in c, "weights")
    loss = functools.partial(F.cross_entropy, reduction=c.choice("reduction", "mean"), label_smoothing=c.number("label_smoothing"),
                             ignore_index=c.integer("ignore_index", -100))  # fmt: skip
    return lambda logits, targets: loss(logits.flatten(0, -2), targets.flatten().long()), ["logits", "targets"]


@peer(PYTORCH, "linear_cross_entropy")
def _(c):
    c.require(c.number("softcap") == 0 and c.number("lse_square") == 0, "an option PyTorch has not")
    c.require(not any(name in c for name in ("dloss", "bias", "class_weights")), "an input that PyTorch has not")
    reduction, smoothing = c.choice("reduction", "mean"), c.number("label_smoothing")
    c.require(reduction == "mean", "another reduction")

    def loss(x, w, targets):
        """In chunks whose logits are made again for the gradients, which is how PyTorch does without all of them."""
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        total, count = 0.0, (targets != c.integer("ignore_index", -100)).sum()
        with torch.enable_grad():
            for part, target in zip(x.split(4096), targets.long().split(4096)):
                def of(a, b, t):
                    logits = (a @ b.T).float() * c.number("scale", 1)
                    return F.cross_entropy(logits, t, ignore_index=c.integer("ignore_index", -100), label_smoothing=smoothing,
                                           reduction="sum")  # fmt: skip
                one = checkpoint(of, part, w, target, use_reentrant=False)
                total = total + one / count
            dx, dw = torch.autograd.grad(total, (x, w))
        return total.detach(), dx, dw

    c.remark("the gradients too")
    for name in ("lse", "logprob"):
        c.outputs.pop(name, None)
    return loss, ["x", "w", "targets"]
