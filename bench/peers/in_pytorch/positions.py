# Positions: rotations, absolute embeddings, and the kinds of attention that see how far keys are.
import math

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from case import DEVICE, PYTORCH, peer

from .attention import score_rules


def turned(x, cos, sin, interleaved):
    """Pairs of the last axis turned; cos and sin have half as many columns as turn."""
    r = 2 * cos.shape[-1]
    head, tail = x[..., :r].float(), x[..., r:]
    if interleaved:
        a, b = head[..., 0::2], head[..., 1::2]
        y = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    else:
        a, b = head.chunk(2, -1)
        y = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    return torch.cat([y.to(x.dtype), tail], -1) if tail.shape[-1] else y.to(x.dtype)


def angles(c, positions, width):
    r = c.integer("rotary", width)
    frequencies = c.number("theta", 10000) ** (-torch.arange(0, r, 2, device=DEVICE, dtype=torch.float64) / r)
    return positions.double()[..., None] * frequencies


@peer(PYTORCH, "rope", "rope_backward")
def _(c):
    name = "dy" if c.is_backward() else "x"
    swapped, interleaved = (c.choice("layout") == "bshd"), c.choice("style", "half") == "interleaved"
    count = c[name].shape[1 if swapped else 2]
    positions = c["positions"] if "positions" in c else torch.arange(count, device=DEVICE)[None] + c.integer("offset")
    angle = angles(c, positions, c[name].shape[-1]).unsqueeze(2 if swapped else 1)
    cos, sin = angle.cos().float(), angle.sin().float()
    if name == "dy":
        sin = -sin
    return lambda x: turned(x, cos, sin, interleaved), [name]


@peer(PYTORCH, "rope_attention")
def _(c):
    attend, names = PYTORCH["attention"](c)
    swapped, interleaved = (c.choice("layout") == "bshd"), c.choice("style", "half") == "interleaved"
    queries, keys = (c[name].shape[1 if swapped else 2] for name in "qk")
    angle = angles(c, torch.arange(max(queries, keys), device=DEVICE), c["q"].shape[-1])
    angle = angle[:, None] if swapped else angle
    cos, sin = angle.cos().float(), angle.sin().float()

    def turn_and_attend(q, k, v):
        q = turned(q, cos[keys - queries : keys], sin[keys - queries : keys], interleaved)
        return attend(q, turned(k, cos[:keys], sin[:keys], interleaved), v)

    return turn_and_attend, names


@peer(PYTORCH, "add_positions", "sinusoidal")
def _(c):
    x = c["x"]
    scale, eps = c.number("scale", 1), c.number("eps", 1e-5)
    count, width = x.shape[1], x.shape[2]
    positions = c["positions"].long() if "positions" in c else torch.arange(count, device=DEVICE) + c.integer("offset")
    fixed = None
    if c.kernel.startswith("sinusoidal"):
        frequencies = c.number("theta", 10000) ** (-torch.arange(0, width, 2, device=DEVICE, dtype=torch.float64) / width)
        angle = positions.double()[..., None] * frequencies
        fixed = torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[..., :width].to(x.dtype)
    normed = "w" in c
    names = ["x"] + ([] if fixed is not None else ["table"]) + (["w", "b"] if normed else [])

    def add(x, *rest):
        table = fixed if fixed is not None else F.embedding(positions, rest[0])
        z = (x if scale == 1 else scale * x) + table
        return F.layer_norm(z, z.shape[-1:], rest[-2], rest[-1], eps) if normed else z

    return add, names


class Heads:
    """What attention by a formula of one's own needs of its tensors."""

    def __init__(self, c, query, key):
        self.swapped = c.choice("layout") == "bshd"
        self.scale = c.number("scale", 1 / math.sqrt(c[query].shape[-1]))
        self.queries, self.keys = (c[name].shape[1 if self.swapped else 2] for name in (query, key))
        # The last query stands at the last key.
        self.theirs = torch.arange(self.keys, device=DEVICE)
        self.mine = torch.arange(self.queries, device=DEVICE) + self.keys - self.queries
        self.distance = self.mine[:, None] - self.theirs

    def first(self, *tensors):
        """Heads before the sequence."""
        return [x.transpose(1, 2) if self.swapped else x for x in tensors]

    def scores(self, q, k):
        return (q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).mT).float() * self.scale

    def values(self, weights, v):
        o = weights.to(v.dtype) @ v.repeat_interleave(weights.shape[1] // v.shape[1], 1)
        return o.transpose(1, 2) if self.swapped else o


@peer(PYTORCH, "rerope_attention")
def _(c):
    heads = Heads(c, "q1", "k1")
    seen, near = score_rules(c, heads.queries, heads.keys), heads.distance.abs() < c.integer("window")

    def attend(*tensors):
        q1, k1, q2, k2, v = heads.first(*tensors)
        s = torch.where(near, heads.scores(q1, k1), heads.scores(q2, k2))
        s = s if seen is None else s.masked_fill(~seen, -math.inf)
        return heads.values(s.softmax(-1), v)

    return attend, ["q1", "k1", "q2", "k2", "v"]


@peer(PYTORCH, "exposb_attention")
def _(c):
    heads = Heads(c, "q", "k")
    d = torch.arange(c["q"].shape[-1], device=DEVICE)
    center, width = c.number("gain_center", len(d) // 4), c.number("gain_width", len(d) // 8)
    gain = c.number("gain_base", 0.8) + c.number("gain_peak", 0.4) * torch.exp(-((d - center) ** 2) / (2 * width**2))
    base, peak, decay = c.number("near_base", 0.7), c.number("near_peak", 0.3), c.number("near_decay", 0.005)
    interleaved = c.choice("style", "half") == "interleaved"

    def factors(place):
        angle, boost = angles(c, place, len(d)), 1 + c.number("boost", 0.2) * torch.exp(-c.number("boost_decay", 0.001) * place)
        return angle.cos().float(), angle.sin().float(), gain * boost[:, None]

    of_queries, of_keys = factors(heads.mine), factors(heads.theirs)

    def moved(x, factors):
        cos, sin, size = factors
        return (size * turned(x, cos, sin, interleaved).float()).to(x.dtype)

    plain = c.integer("window_left", -1) < 0 and heads.queries == heads.keys and not heads.swapped
    # FlexAttention has gradients on a GPU only.
    if c.compiled and plain and (DEVICE == "cuda" or not c.is_backward()):
        c.remark("FlexAttention")
        mask = None
        if c.flag("causal"):
            mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, heads.queries, heads.keys, device=DEVICE)

        def nearer(score, b, h, i, j):
            return score * (base + peak * torch.exp(-decay * (i - j).abs()))

        def flex(q, k, v):
            q, k = moved(q, of_queries), moved(k, of_keys)
            return flex_attention(q, k, v, nearer, mask, heads.scale, enable_gqa=q.shape[1] != k.shape[1])

        return flex, ["q", "k", "v"]
    near = base + peak * torch.exp(-decay * heads.distance.abs())
    seen = score_rules(c, heads.queries, heads.keys)

    def attend(*tensors):
        q, k, v = heads.first(*tensors)
        s = heads.scores(moved(q, of_queries), moved(k, of_keys)) * near
        s = s if seen is None else s.masked_fill(~seen, -math.inf)
        return heads.values(s.softmax(-1), v)

    return attend, ["q", "k", "v"]


@peer(PYTORCH, "stick_breaking_attention")
def _(c):
    heads = Heads(c, "q", "k")
    seen = heads.distance > 0

    def attend(*tensors):
        q, k, v = heads.first(*tensors)
        s = heads.scores(q, k)
        shortened = F.softplus(s).masked_fill(~seen, 0)  # -log(1 - sigmoid(s))
        # The sum over the later keys: those of all from here on, less the own.
        later = shortened.flip(-1).cumsum(-1).flip(-1) - shortened
        weights = torch.exp(F.logsigmoid(s) - later).masked_fill(~seen, 0)
        return heads.values(weights, v), 1 - weights.sum(-1)

    return attend, ["q", "k", "v"]
