# Mixtures of experts, as PyTorch's users write them.
import torch
import torch.nn.functional as F

from case import DEVICE, PYTORCH, peer


@peer(PYTORCH, "moe_route")
def _(c):
    c.require(c.integer("n_group", 1) == 1 and not c.flag("statistics"), "groups of experts")
    scoring, k = c.choice("scoring", "softmax"), c.integer("k", 2)

    def route(logits, *bias):
        x = logits.float()
        scores = torch.softmax(x, -1) if scoring == "softmax" else torch.sigmoid(x) if scoring == "sigmoid" else x
        experts = (scores + bias[0] if bias else scores).topk(k, -1).indices
        weights = scores.gather(-1, experts)
        if scoring == "chosen":
            weights = torch.softmax(weights, -1)
        elif c.flag("renormalize"):
            weights = weights / weights.sum(-1, keepdim=True)
        return weights * c.number("scale", 1), experts.int()

    return route, ["logits", *c.given("bias")]


@peer(PYTORCH, "moe_permute")
def _(c):
    count = c.integer("count", 8)
    c.require(c.integer("first") == 0, "some of the experts")
    least, most = int(c["experts"].min()), int(c["experts"].max())
    c.require(0 <= least and most < count, "experts that are elsewhere")

    def permute(experts):
        order = torch.argsort(experts.flatten(), stable=True)
        counts = torch.bincount(experts.flatten(), minlength=count)
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(order.numel(), device=order.device)
        return (counts.int(), F.pad(counts.cumsum(0), (1, 0)).int(), order.int(), (order // experts.shape[1]).int(),
                inverse.view_as(experts).int())

    return permute, ["experts"]


def by_expert(rows, w, counts, sizes):
    """One grouped product where PyTorch has it, else one product for each expert."""
    if DEVICE == "cuda" and rows.dtype == torch.bfloat16:
        return torch._grouped_mm(rows, w, offs=counts.cumsum(0).int())
    return torch.cat([part @ of for part, of in zip(torch.split(rows, sizes), w)])


def bias_of(bias, counts):
    return torch.repeat_interleave(bias, counts.long(), 0)


@peer(PYTORCH, "moe_up")
def _(c):
    gate, sizes = c.choice("gate", "concatenated"), c["counts"].long().tolist()
    c.require(c.choice("activation", "silu") in ("silu", "none"), "another activation")
    alpha, limit, offset = c.number("alpha", 1), c.number("limit"), c.number("up_offset")

    def up(x, w, counts, rows, *bias):
        z = by_expert(x[rows.long()], w.mT if c.flag("trans_w") else w, counts, sizes)
        if bias:
            z = z + bias_of(bias[0], counts)
        if gate == "none":
            return F.silu(z) if c.choice("activation", "silu") == "silu" else z
        g, u = (z[:, ::2], z[:, 1::2]) if gate == "interleaved" else z.chunk(2, -1)
        if limit:
            g, u = g.clamp(max=limit), u.clamp(-limit, limit)
        return g * torch.sigmoid(alpha * g) * (u + offset)

    return up, ["x", "w", "counts", "rows", *c.given("bias")]


def combined(parts, inverse, weights, addend):
    rows = parts[inverse.clamp(min=0).long()].float() * (inverse >= 0).unsqueeze(-1)
    if weights is not None:
        rows = rows * weights.unsqueeze(-1)
    y = rows.sum(1)
    return (y if addend is None else y + addend.float()).to(parts.dtype)


@peer(PYTORCH, "moe_down")
def _(c):
    sizes, extras = c["counts"].long().tolist(), c.given("bias", "addend")

    def down(h, w, counts, inverse, weights, *rest):
        given = dict(zip(extras, rest))
        parts = by_expert(h, w.mT if c.flag("trans_w") else w, counts, sizes)
        if "bias" in given:
            parts = parts + bias_of(given["bias"], counts)
        return combined(parts, inverse, weights, given.get("addend"))

    return down, ["h", "w", "counts", "inverse", "weights", *extras]


@peer(PYTORCH, "moe_combine")
def _(c):
    extras = c.given("weights", "addend")

    def combine(parts, inverse, *rest):
        given = dict(zip(extras, rest))
        return combined(parts, inverse, given.get("weights"), given.get("addend"))

    return combine, ["parts", "inverse", *extras]
