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


E2M1 = (0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6)


def spread(scales, like, *sides):
    """Scales of blocks as large as the last axes of what they scale."""
    for axis, side in zip(range(-len(sides), 0), sides):
        scales = scales.repeat_interleave(side, axis).narrow(axis, 0, like.shape[axis])
    return scales


def operands(c, rows, rows_scales, w, w_scales):
    """The rows and the matrices [E, K, N] as they are multiplied: codes as bf16, after scaling."""

    def kind(x):
        return torch.bfloat16 if x.element_size() == 1 else x.dtype

    if w.dtype == torch.uint8:
        pairs = torch.stack((w & 15, w >> 4), -1).flatten(-2).long()
        numbers = torch.tensor(E2M1, device=w.device)[pairs]
        w = (numbers * spread(torch.exp2(w_scales.float() - 127), numbers, 32)).bfloat16()
    elif w_scales is not None:
        w = (w.float() * spread(w_scales, w, 128, 128)).to(kind(w))
    if rows_scales is not None:
        rows = (rows.float() * spread(rows_scales, rows, 128)).to(kind(rows))
    return rows.to(kind(rows)), (w.mT if c.flag("trans_w") else w).to(kind(w))


def bias_of(bias, counts):
    return torch.repeat_interleave(bias, counts.long(), 0)


def remarked(c, *names):
    """The optional inputs that are there."""
    if "w_scales" in c.given("w_scales"):
        c.remark("multiplies in bf16 after scaling, all experts' matrices each time")
    return c.given(*names)


@peer(PYTORCH, "moe_up")
def _(c):
    gate, sizes = c.choice("gate", "concatenated"), c["counts"].long().tolist()
    c.require(c.choice("activation", "silu") in ("silu", "none"), "another activation")
    alpha, limit, offset = c.number("alpha", 1), c.number("limit"), c.number("up_offset")
    extras = remarked(c, "bias", "x_scales", "w_scales")

    def up(x, w, counts, rows, *rest):
        given = dict(zip(extras, rest))
        x, w = operands(c, x, given.get("x_scales"), w, given.get("w_scales"))
        z = by_expert(x[rows.long()], w, counts, sizes)
        if "bias" in given:
            z = z + bias_of(given["bias"], counts)
        if gate == "none":
            return F.silu(z) if c.choice("activation", "silu") == "silu" else z
        g, u = (z[:, ::2], z[:, 1::2]) if gate == "interleaved" else z.chunk(2, -1)
        if limit:
            g, u = g.clamp(max=limit), u.clamp(-limit, limit)
        return g * torch.sigmoid(alpha * g) * (u + offset)

    return up, ["x", "w", "counts", "rows", *extras]


def combined(parts, inverse, weights, addend):
    rows = parts[inverse.clamp(min=0).long()].float() * (inverse >= 0).unsqueeze(-1)
    if weights is not None:
        rows = rows * weights.unsqueeze(-1)
    y = rows.sum(1)
    return (y if addend is None else y + addend.float()).to(parts.dtype)


@peer(PYTORCH, "moe_down")
def _(c):
    sizes, extras = c["counts"].long().tolist(), remarked(c, "bias", "addend", "h_scales", "w_scales")

    def down(h, w, counts, inverse, weights, *rest):
        given = dict(zip(extras, rest))
        h, w = operands(c, h, given.get("h_scales"), w, given.get("w_scales"))
        parts = by_expert(h, w, counts, sizes)
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
