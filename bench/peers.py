#!/usr/bin/env python3
# What `sectile bench kernels --json FILE` timed, in PyTorch (eager and compiled) and Triton: the same
# work on the same shapes with the same kind of timing, as one table in Markdown.
import argparse
import contextlib
import functools
import json
import math
import os
import signal
import sys
import time

PARSER = argparse.ArgumentParser(description="Times PyTorch and Triton at what Sectile was timed at.")
PARSER.add_argument("file", help="what `sectile bench kernels --json` wrote")
PARSER.add_argument("--cpu-check", action="store_true",
                    help="no times: run every peer on the CPU, compare shapes, and Triton's numbers with PyTorch's")  # fmt: skip
PARSER.add_argument("--kernel", help="only these, as matmul,softmax")
PARSER.add_argument("--budget", type=float, default=330, help="begin no compilation after so many seconds")
PARSER.add_argument("--limit", type=float, default=45, help="seconds for one peer of one kernel")
PARSER.add_argument("--json", help="write the times there, too")
ARGS = PARSER.parse_args()
if ARGS.cpu_check:
    os.environ["TRITON_INTERPRET"] = "1"

import torch  # noqa: E402
import torch._functorch.config as functorch_config  # noqa: E402
import torch.nn.functional as F  # noqa: E402

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

DEVICE = "cpu" if ARGS.cpu_check else "cuda"
DTYPES = {"bool": torch.bool, "bf16": torch.bfloat16, "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}
for letter, family, sizes in (("f", "float", (16, 32, 64)), ("i", "int", (8, 16, 32, 64)), ("u", "uint", (8, 16, 32, 64))):
    DTYPES.update({f"{letter}{size}": getattr(torch, f"{family}{size}") for size in sizes})

class NoPeer(Exception):
    """This call has no counterpart there; the message says why, if it says anything."""

class Case:
    """One row: its input tensors by name, its options and extents."""
    def __init__(self, row):
        self.row, self.kernel, self.options = row, row["kernel"], row["options"]
        self.extents = row["extents"]
        self.outputs = {a["name"]: a for a in row["arguments"] if a["output"]}
        self.inputs = {a["name"]: make(a) for a in row["arguments"] if not a["output"]}
    def __getitem__(self, name):
        return self.inputs[name]
    def __contains__(self, name):
        return name in self.inputs
    def flag(self, name):
        return self.options.get(name) == "true"
    def number(self, name, initial=0.0):
        return float(self.options.get(name, initial))
    def integer(self, name, initial=0):
        return int(self.options.get(name, initial))
    def choice(self, name, initial=""):
        return self.options.get(name, initial)
    def require(self, holds, why):
        if not holds:
            raise NoPeer(why)

def make(argument):
    dtype, shape = DTYPES[argument["dtype"]], argument["shape"]
    if dtype.is_floating_point:
        return torch.randn(shape, device=DEVICE, dtype=torch.float32).to(dtype)
    if "values" in argument:
        return torch.tensor(argument["values"], device=DEVICE).reshape(shape).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape, device=DEVICE) > 0.25
    least, most = 0 if argument["name"] == "targets" else argument.get("least", 0), argument.get("most", 0)
    return torch.randint(least, most + 1, shape, device=DEVICE).to(dtype)

# ---- PyTorch: for a kernel's name a function from a case to (function, names of its tensors) ----

def peer(table, *names):
    def register(function):
        table.update(dict.fromkeys(names, function))
        return function
    return register

aten = torch.ops.aten
TORCH = {
    "vector_add": lambda c: (torch.add, ["x", "y"]),
    "softmax": lambda c: (lambda x: F.softmax(x, dim=-1), ["x"]),
    "log_softmax": lambda c: (lambda x: F.log_softmax(x, dim=-1), ["x"]),
    "softmax_backward": lambda c: (lambda y, dy: aten._softmax_backward_data(dy, y, -1, y.dtype), ["y", "dy"]),
    "log_softmax_backward": lambda c: (lambda y, dy: aten._log_softmax_backward_data(dy, y, -1, y.dtype), ["y", "dy"]),
    "embedding": lambda c: (F.embedding, ["indices", "table"]),
    "dropout": lambda c: (functools.partial(F.dropout, p=c.number("p", 0.5)), ["x"]),
    "reduce": lambda c: (functools.partial(REDUCTIONS[c.choice("op", "sum")], dim=-1), ["x"]),
    "scan": lambda c: (scan_of(c), ["x"]),
    "sort": lambda c: (functools.partial(torch.sort, stable=True, descending=c.flag("descending")), ["x"]),
    "argsort": lambda c: (functools.partial(torch.argsort, stable=True, descending=c.flag("descending")), ["x"]),
    "topk": lambda c: (functools.partial(torch.topk, k=c.integer("k", 8), largest=c.choice("largest") != "false"), ["x"]),
    "histogram": lambda c: (histogram_of(c.integer("bins", 256)), ["x"]),
    "activation": lambda c: (activation_of(c.choice("kind", "gelu")), ["x"]),
}

REDUCTIONS = {name: getattr(torch, {"max": "amax", "min": "amin"}.get(name, name))
              for name in ("sum", "mean", "prod", "max", "min", "argmax", "argmin")}  # fmt: skip

def histogram_of(bins):
    return lambda x: torch.bincount(torch.where((x >= 0) & (x < bins), x, bins), minlength=bins + 1)[:bins]

def scan_of(c):
    function, back = functools.partial(getattr(torch, c.choice("op", "cumsum")), dim=-1), c.flag("reverse")
    def scan(x):
        y = function(x.flip(-1) if back else x)
        y = y if torch.is_tensor(y) else y[0]
        return y.flip(-1) if back else y
    return scan

@peer(TORCH, "layer_norm", "group_norm")
def _(c):
    eps, groups = c.number("eps", 1e-5), c.integer("groups", 32)
    if c.kernel.startswith("group"):
        return lambda x, w, b: F.group_norm(x, groups, w, b, eps), ["x", "w", "b"]
    extras = [name for name in ("w", "b") if name in c]
    given = [{"w": "weight", "b": "bias"}[name] for name in extras]
    return lambda x, *rest: F.layer_norm(x, x.shape[-1:], **dict(zip(given, rest)), eps=eps), ["x", *extras]

@peer(TORCH, "rms_norm")
def _(c):
    eps, extras = c.number("eps", 1e-6), [name for name in ("w", "residual") if name in c]
    def normalised(x, *rest):
        given = dict(zip(extras, rest))
        h = x + given["residual"] if "residual" in given else x
        y = F.rms_norm(h, h.shape[-1:], given.get("w"), eps)
        return (y, h) if "residual" in given else y
    return normalised, ["x", *extras]

@peer(TORCH, "cross_entropy")
def _(c):
    c.require(c.number("lse_square") == 0, "has no squared term")
    loss = functools.partial(F.cross_entropy, reduction=c.choice("reduction", "mean"), label_smoothing=c.number("label_smoothing"),
                             ignore_index=c.integer("ignore_index", -100))  # fmt: skip
    return lambda logits, targets: loss(logits.flatten(0, -2), targets.flatten().long()), ["logits", "targets"]

def activation_of(kind):
    known = {
        "none": lambda x: x, "relu": F.relu, "silu": F.silu, "gelu": F.gelu, "sigmoid": torch.sigmoid,
        "tanh": torch.tanh, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "softplus": F.softplus,
        "relu_squared": lambda x: F.relu(x).square(),
    }  # fmt: skip
    if kind not in known:
        raise NoPeer(f"has no {kind}")
    return known[kind]

@peer(TORCH, "swiglu", "geglu")
def _(c):
    gelu = "gelu_tanh" if c.choice("approximate") == "tanh" else "gelu"
    f = F.silu if c.kernel.startswith("swiglu") else activation_of(gelu)
    return lambda gate, up: f(gate) * up, ["gate", "up"]

@peer(TORCH, "matmul", "batched_matmul")
def _(c):
    for name in ("a", "b"):
        c.require(c[name].dtype in (torch.float16, torch.bfloat16, torch.float32), "8-bit operands were not asked of it")
    alpha, beta, act = c.number("alpha", 1), c.number("beta", 1), activation_of(c.choice("activation", "none"))
    trans_a, trans_b = c.flag("trans_a"), c.flag("trans_b")
    extras = [name for name in ("bias", "residual", "row_scale", "column_scale") if name in c]
    def product(a, b, *rest):
        given = dict(zip(extras, rest))
        y = torch.matmul(a.mT if trans_a else a, b.mT if trans_b else b)
        y = alpha * y if alpha != 1 else y
        y = y * given["row_scale"][..., None] if "row_scale" in given else y
        y = y * given["column_scale"][..., None, :] if "column_scale" in given else y
        y = y + beta * given["residual"] if "residual" in given else y
        y = y + given["bias"][..., None, :] if "bias" in given else y
        return act(y)
    return product, ["a", "b", *extras]

@peer(TORCH, "grouped_matmul")
def _(c):
    sizes, trans = c["group_sizes"].long().tolist(), c.flag("trans_rhs")
    def product(lhs, rhs):
        return torch.cat([part @ (w.mT if trans else w) for part, w in zip(torch.split(lhs, sizes), rhs)])
    return product, ["lhs", "rhs"]


def score_rules(c, queries, keys):
    """A mask [Sq, Sk] of positions, or None."""
    left, right = c.integer("window_left", -1), 0 if c.flag("causal") else c.integer("window_right", -1)
    if left < 0 and right < 0:
        return None
    distance = torch.arange(keys, device=DEVICE) - torch.arange(queries, device=DEVICE)[:, None] - (keys - queries)
    seen = torch.ones_like(distance, dtype=torch.bool)
    if left >= 0:
        seen &= distance >= -left
    if right >= 0:
        seen &= distance <= right
    return seen

@peer(TORCH, "attention", "ring_attention")
def _(c):
    c.require(c.number("dropout") == 0, "dropout was not asked of it")
    c.require(c["q"].dim() == 4, "no packed sequences")
    swapped, cap = (c.choice("layout") == "bshd"), c.number("softcap")
    scale = c.number("scale", 1 / math.sqrt(c["q"].shape[-1]))
    queries, keys = (c[name].shape[1 if swapped else 2] for name in "qk")
    extras = [name for name in ("bias", "mask", "sinks") if name in c]
    plain_causal = c.flag("causal") and c.integer("window_left", -1) < 0
    seen = None if plain_causal and queries == keys and not extras and not cap else score_rules(c, queries, keys)
    def attend(q, k, v, *rest):
        given = dict(zip(extras, rest))
        if swapped:
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        if cap or "sinks" in given:
            o = spelled_out(q, k, v, given)
        else:
            bias = given.get("bias")
            for mask in (seen, given.get("mask")):
                if mask is not None:
                    hidden = torch.zeros((), dtype=q.dtype, device=q.device).masked_fill(~mask, -math.inf)
                    bias = hidden if bias is None else bias + hidden
            o = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale, enable_gqa=q.shape[1] != k.shape[1],
                                               is_causal=plain_causal and bias is None)  # fmt: skip
        return o.transpose(1, 2) if swapped else o
    def spelled_out(q, k, v, given):
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        s = (q @ k.mT).float() * scale
        if cap:
            s = cap * torch.tanh(s / cap)
        if "bias" in given:
            s = s + given["bias"]
        for mask in (seen, given.get("mask")):
            if mask is not None:
                s = s.masked_fill(~mask, -math.inf)
        if "sinks" in given:
            sinks = given["sinks"][None, :, None, :].expand(*s.shape[:1], s.shape[1], s.shape[2], -1)
            return (torch.cat([s, sinks], -1).softmax(-1)[..., : s.shape[-1]].to(v.dtype)) @ v
        return s.softmax(-1).to(v.dtype) @ v
    return attend, ["q", "k", "v", *extras]

@peer(TORCH, "attention_varlen")
def _(c):
    c.require(not {"bias", "mask", "sinks"} & set(c.inputs) and c.number("softcap") == c.number("dropout") == 0, "plain attention only")
    c.require(DEVICE == "cuda", "runs on a GPU only")
    from torch.nn.attention.varlen import varlen_attn
    scale, ends = c.number("scale", 1 / math.sqrt(c["q"].shape[-1])), [c["cu_seqlens_" + name] for name in "qk"]
    longest = [int(end.diff().max()) for end in ends]
    window = (c.integer("window_left", -1), 0 if c.flag("causal") else c.integer("window_right", -1))
    return lambda q, k, v: varlen_attn(q, k, v, *ends, *longest, scale=scale, window_size=window), ["q", "k", "v"]

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

@peer(TORCH, "rope", "rope_backward")
def _(c):
    name = "dy" if c.kernel.endswith("_backward") else "x"
    swapped, interleaved = (c.choice("layout") == "bshd"), c.choice("style", "half") == "interleaved"
    count = c[name].shape[1 if swapped else 2]
    positions = c["positions"] if "positions" in c else torch.arange(count, device=DEVICE)[None] + c.integer("offset")
    angle = angles(c, positions, c[name].shape[-1]).unsqueeze(2 if swapped else 1)
    cos, sin = angle.cos().float(), angle.sin().float()
    if name == "dy":
        sin = -sin
    return lambda x: turned(x, cos, sin, interleaved), [name]

@peer(TORCH, "rope_attention")
def _(c):
    attend, names = TORCH["attention"](c)
    swapped, interleaved = (c.choice("layout") == "bshd"), c.choice("style", "half") == "interleaved"
    queries, keys = (c[name].shape[1 if swapped else 2] for name in "qk")
    angle = angles(c, torch.arange(max(queries, keys), device=DEVICE), c["q"].shape[-1])
    angle = angle[:, None] if swapped else angle
    cos, sin = angle.cos().float(), angle.sin().float()
    def turn_and_attend(q, k, v):
        q = turned(q, cos[keys - queries : keys], sin[keys - queries : keys], interleaved)
        return attend(q, turned(k, cos[:keys], sin[:keys], interleaved), v)
    return turn_and_attend, names

@peer(TORCH, "attention_merge")
def _(c):
    def merge(partial_o, partial_lse):
        lse = torch.logsumexp(partial_lse, 0)
        weights = torch.exp(partial_lse - lse)
        return (partial_o * weights[..., None]).sum(0).to(partial_o.dtype), lse
    return merge, ["partial_o", "partial_lse"]

@peer(TORCH, "add_positions", "sinusoidal")
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

@peer(TORCH, "mean_pool")
def _(c):
    if "mask" not in c:
        return lambda x: x.mean(1), ["x"]
    def pool(x, mask):
        kept = torch.where(mask[..., None], x, 0).sum(1, dtype=torch.float32)
        return (kept / mask.sum(1, keepdim=True).clamp(min=1)).to(x.dtype)
    return pool, ["x", "mask"]

@peer(TORCH, "chunk_mean_pool")
def _(c):
    c.require("cu_seqlens" not in c, "no packed sequences")
    chunk = c.integer("chunk", 64)
    c.require(c["x"].shape[1] % chunk == 0, "the last chunk is shorter")
    return lambda x: x.unflatten(1, (-1, chunk)).mean(2), ["x"]

@peer(TORCH, "conv2d")
def _(c):
    nhwc = c.choice("layout", "nchw") == "nhwc"
    stride, padding, dilation = ([c.integer(f"{name}_{axis}", first) for axis in "hw"]
                                 for name, first in (("stride", 1), ("pad", 0), ("dilation", 1)))  # fmt: skip
    groups = c.integer("groups", 1)
    def convolve(x, w, bias=None):
        if nhwc:
            x, w = x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2)
        y = F.conv2d(x, w, bias, stride, padding, dilation, groups)
        return y.permute(0, 2, 3, 1) if nhwc else y
    return convolve, ["x", "w"] + (["b"] if "b" in c else [])

@peer(TORCH, "rnn", "gru", "lstm")
def _(c):
    both, first = c["w_ih"].dim() == 3, c.flag("batch_first")
    c.require(not both or c["w_ih"].shape[0] == 2, "one or two directions")
    cell = c.kernel.removesuffix("_backward")
    function = getattr(torch._VF, "rnn_" + c.choice("nonlinearity", "tanh") if cell == "rnn" else cell)
    weights = [name for name in ("w_ih", "w_hh", "b_ih", "b_hh") if name in c]
    states = [name for name in ("h0", "c0") if name in c]
    train = c.kernel != cell
    shape = (1 + both, c["x"].shape[0 if first else 1], c["w_hh"].shape[-1])
    zeros = torch.zeros(shape, device=DEVICE, dtype=c["x"].dtype)
    def run(x, *rest):
        given = dict(zip(weights + states, rest))
        flat = [given[name][d] if both else given[name] for d in range(1 + both) for name in weights]
        begin = [given[name].reshape(shape) if name in given else zeros for name in ("h0", "c0")]
        begin = tuple(begin) if cell == "lstm" else begin[0]
        return tuple(function(x, begin, flat, len(weights) == 4, 1, 0.0, train, both, first))
    return run, ["x", *weights, *states]

@peer(TORCH, "quantized_matmul")
def _(c):
    group, act, packed = c.integer("group", 128), activation_of(c.choice("activation", "none")), c["w"].dtype == torch.uint8
    extras = [name for name in ("zeros", "bias") if name in c]
    def product(a, w, scales, *rest):
        given = dict(zip(extras, rest))
        codes = torch.stack([w & 15, w >> 4], -1).flatten(-2) if packed else w
        spread = lambda x: x.repeat_interleave(group, 1)[:, : codes.shape[1]]  # noqa: E731
        zero = spread(given["zeros"]) if "zeros" in given else 8 if packed else 0
        y = a @ ((codes.to(a.dtype) - zero) * spread(scales)).mT
        return act(y + given["bias"] if "bias" in given else y)
    return product, ["a", "w", "scales", *extras]

@peer(TORCH, "grouped_matmul_drhs")
def _(c):
    sizes, trans = c["group_sizes"].long().tolist(), c.flag("trans_rhs")
    def product(lhs, dc):
        pairs = zip(torch.split(lhs, sizes), torch.split(dc, sizes))
        return torch.stack([d.mT @ part if trans else part.mT @ d for part, d in pairs])
    return product, ["lhs", "dc"]

@peer(TORCH, "rerope_attention", "exposb_attention")
def _(c):
    pairs, swapped = [("q1", "k1"), ("q2", "k2")] if "q1" in c else [("q", "k")], (c.choice("layout") == "bshd")
    q = c[pairs[0][0]]
    queries, keys = (c[name].shape[1 if swapped else 2] for name in pairs[0])
    scale, seen = c.number("scale", 1 / math.sqrt(q.shape[-1])), score_rules(c, queries, keys)
    place = torch.arange(max(queries, keys), device=DEVICE, dtype=torch.float32)
    mine, theirs = place[keys - queries : keys], place[:keys]
    distance = (mine[:, None] - theirs).abs()
    if len(pairs) == 1:
        d = torch.arange(q.shape[-1], device=DEVICE)
        center, width = c.number("gain_center", len(d) // 4), c.number("gain_width", len(d) // 8)
        gain = c.number("gain_base", 0.8) + c.number("gain_peak", 0.4) * torch.exp(-((d - center) ** 2) / (2 * width**2))
        boost = 1 + c.number("boost", 0.2) * torch.exp(-c.number("boost_decay", 0.001) * place)
        near = c.number("near_base", 0.7) + c.number("near_peak", 0.3) * torch.exp(-c.number("near_decay", 0.005) * distance)
        angle = angles(c, place, len(d))
        cos, sin, interleaved = angle.cos().float(), angle.sin().float(), c.choice("style", "half") == "interleaved"
    def moved(x, at):
        return (gain * boost[at, None] * turned(x, cos[at], sin[at], interleaved).float()).to(x.dtype)
    def attend(*tensors):
        *pair, v = (x.transpose(1, 2) if swapped else x for x in tensors)
        group = pair[0].shape[1] // v.shape[1]
        if len(pairs) == 1:
            pair = [moved(pair[0], slice(keys - queries, keys)), moved(pair[1], slice(0, keys))]
        parts = [(pair[2 * i] @ pair[2 * i + 1].repeat_interleave(group, 1).mT).float() * scale for i in range(len(pairs))]
        s = parts[0] * near if len(pairs) == 1 else torch.where(distance < c.integer("window"), *parts)
        s = s if seen is None else s.masked_fill(~seen, -math.inf)
        o = s.softmax(-1).to(v.dtype) @ v.repeat_interleave(group, 1)
        return o.transpose(1, 2) if swapped else o
    return attend, [name for pair in pairs for name in pair] + ["v"]

@peer(TORCH, "paged_decode")
def _(c):
    c.require(c["k_cache"].dtype == c["q"].dtype, "no quantised caches")
    c.require("sinks" not in c and c.number("softcap") == 0 and c.integer("window_left", -1) < 0, "plain attention only")
    scale, tables = c.number("scale", 1 / math.sqrt(c["q"].shape[-1])), c["block_tables"].long()
    seen = torch.arange(tables.shape[1] * c["k_cache"].shape[2], device=DEVICE) < c["context_lens"][:, None]
    def attend(q, k_cache, v_cache):
        k, v = (cache[tables].transpose(1, 2).flatten(2, 3) for cache in (k_cache, v_cache))
        o = F.scaled_dot_product_attention(q[:, :, None], k, v, attn_mask=seen[:, None, None], scale=scale, enable_gqa=True)
        return o[:, :, 0]
    return attend, ["q", "k_cache", "v_cache"]

def gradient_peer(c):
    """The gradients of a kernel whose forward function is known: those that the call gives, by autograd."""
    forward = c.kernel.removesuffix("_backward")
    if forward == c.kernel or forward not in TORCH:
        raise NoPeer("")
    wanted = {name[1:]: argument for name, argument in c.outputs.items() if name.startswith("d")}
    for name, argument in wanted.items():
        if name not in c.inputs:  # as a bias, whose gradient does not depend on it
            c.inputs[name] = make(argument)
    function, names = TORCH[forward](c)
    leaves = {name: c[name].detach().clone().requires_grad_(name in wanted and c[name].is_floating_point()) for name in names}
    upstream = [c[name] for name in c.inputs if name.startswith("d") and name[1:] not in names]
    return function, leaves, [name for name in names if name in wanted], upstream

def torch_work(c, compiled):
    """Something to call, and what it gives by the names of the call's outputs."""
    wrap = (lambda f: torch.compile(f, dynamic=False)) if compiled else (lambda f: f)
    if c.kernel in TORCH:
        function, names = TORCH[c.kernel](c)
        function, tensors = wrap(function), [c[name] for name in names]
        outputs = list(c.outputs)
        @torch.no_grad()
        def work():
            return function(*tensors)
        def named(result):
            return dict(zip(outputs, result if isinstance(result, tuple) else (result,)))
        return work, named
    function, leaves, wanted, upstream = gradient_peer(c)
    results = wrap(function)(*leaves.values())
    results = list(results if isinstance(results, tuple) else (results,))[: len(upstream)]
    upstream = [grad.to(result.dtype).reshape(result.shape) for grad, result in zip(upstream, results)]
    targets = [leaves[name] for name in wanted]
    def work():
        return torch.autograd.grad(results, targets, upstream, retain_graph=True)
    return work, lambda grads: {"d" + name: grad for name, grad in zip(wanted, grads)}

# ---- Triton: for a kernel's name a function from a case to a list of things to call, of which the
# fastest counts; each gives the call's first output ----

TRITON = {}

def works(launch, result, *choices):
    """The launch with each of these tuples of numbers."""
    return [lambda choice=choice: (launch(*choice), result)[1] for choice in choices]

def rows_of(c, *names):
    for name in names:
        if not c[name].is_contiguous():
            raise NoPeer("not contiguous")
    return math.prod(c[names[0]].shape[:-1]), c[names[0]].shape[-1]

def row_warps(width):
    return 4 if width <= 2048 else 8 if width <= 8192 else 16

if triton:

    @triton.jit
    def add_kernel(x, y, z, count, SIZE: tl.constexpr):
        at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
        there = at < count
        tl.store(z + at, tl.load(x + at, there) + tl.load(y + at, there), there)

    @peer(TRITON, "vector_add")
    def _(c):
        x, y = c["x"], c["y"]
        z, count = torch.empty_like(x), x.numel()
        return works(lambda size: add_kernel[(triton.cdiv(count, size),)](x, y, z, count, SIZE=size), z, (1024,), (4096,))

    @triton.jit
    def softmax_kernel(x, y, width, SIZE: tl.constexpr):
        row = tl.program_id(0).to(tl.int64) * width
        column = tl.arange(0, SIZE)
        values = tl.load(x + row + column, column < width, -float("inf")).to(tl.float32)
        powers = tl.exp(values - tl.max(values, 0))
        tl.store(y + row + column, (powers / tl.sum(powers, 0)).to(y.dtype.element_ty), column < width)

    @peer(TRITON, "softmax")
    def _(c):
        (rows, width), x = rows_of(c, "x"), c["x"]
        y, size = torch.empty_like(x), triton.next_power_of_2(width)
        return works(lambda: softmax_kernel[(rows,)](x, y, width, SIZE=size, num_warps=row_warps(size)), y, ())

    @triton.jit
    def norm_kernel(x, w, b, y, mean, rstd, width, eps, SIZE: tl.constexpr, CENTRED: tl.constexpr):
        index = tl.program_id(0).to(tl.int64)
        column = tl.arange(0, SIZE)
        there = column < width
        values = tl.load(x + index * width + column, there, 0.0).to(tl.float32)
        if CENTRED:
            middle = tl.sum(values, 0) / width
            values = tl.where(there, values - middle, 0.0)
            tl.store(mean + index, middle)
        scale = 1 / tl.sqrt(tl.sum(values * values, 0) / width + eps)
        tl.store(rstd + index, scale)
        result = values * scale * tl.load(w + column, there, 0.0).to(tl.float32)
        if CENTRED:
            result += tl.load(b + column, there, 0.0).to(tl.float32)
        tl.store(y + index * width + column, result.to(y.dtype.element_ty), there)

    @peer(TRITON, "layer_norm", "rms_norm")
    def _(c):
        c.require("residual" not in c, "the sum with a residual was not written for it")
        centred = c.kernel == "layer_norm"
        c.require("w" in c and (not centred or "b" in c), "norms without weights were not written for it")
        (rows, width), x, w = rows_of(c, "x"), c["x"], c["w"]
        b, eps = c["b"] if centred else w, c.number("eps", 1e-5 if centred else 1e-6)
        y, size = torch.empty_like(x), triton.next_power_of_2(width)
        mean, rstd = (torch.empty(rows, device=DEVICE, dtype=torch.float32) for _ in range(2))
        return works(lambda: norm_kernel[(rows,)](x, w, b, y, mean, rstd, width, eps, SIZE=size, CENTRED=centred,
                                                  num_warps=row_warps(size)), y, ())  # fmt: skip

    @triton.jit
    def cross_entropy_kernel(logits, targets, loss, width, ignored, SIZE: tl.constexpr):
        index = tl.program_id(0).to(tl.int64)
        target = tl.load(targets + index)
        highest = -float("inf")
        total = 0.0
        for start in range(0, width, SIZE):
            column = start + tl.arange(0, SIZE)
            values = tl.load(logits + index * width + column, column < width, -float("inf")).to(tl.float32)
            new = tl.maximum(highest, tl.max(values, 0))
            total = total * tl.exp(highest - new) + tl.sum(tl.exp(values - new), 0)
            highest = new
        if target == ignored:
            tl.store(loss + index, 0.0)
        else:
            own = tl.load(logits + index * width + target).to(tl.float32)
            tl.store(loss + index, highest + tl.log(total) - own)

    @peer(TRITON, "cross_entropy")
    def _(c):
        c.require(c.number("label_smoothing") == 0 and c.number("lse_square") == 0, "only the plain loss was written for it")
        (rows, width), logits, targets = rows_of(c, "logits"), c["logits"], c["targets"]
        ignored, reduction = c.integer("ignore_index", -100), c.choice("reduction", "mean")
        loss = torch.empty(rows, device=DEVICE, dtype=torch.float32)
        def work():
            cross_entropy_kernel[(rows,)](logits, targets, loss, width, ignored, SIZE=min(8192, triton.next_power_of_2(width)),
                                          num_warps=16)  # fmt: skip
            if reduction == "mean":
                return loss.sum() / (targets != ignored).sum()
            return loss.sum() if reduction == "sum" else loss
        return [work]

    @triton.jit
    def rope_kernel(x, cos, sin, y, rows, length, HALF: tl.constexpr, SIZE: tl.constexpr):
        row = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
        pair = tl.arange(0, HALF)
        there = (row < rows)[:, None]
        angle = (row % length)[:, None] * HALF + pair
        c = tl.load(cos + angle, there, 0.0)
        s = tl.load(sin + angle, there, 0.0)
        first = row[:, None] * (2 * HALF) + pair
        a = tl.load(x + first, there, 0.0).to(tl.float32)
        b = tl.load(x + first + HALF, there, 0.0).to(tl.float32)
        tl.store(y + first, (a * c - b * s).to(y.dtype.element_ty), there)
        tl.store(y + first + HALF, (b * c + a * s).to(y.dtype.element_ty), there)

    @peer(TRITON, "rope")
    def _(c):
        x = c["x"]
        half = x.shape[-1] // 2
        plain = c.choice("style", "half") == "half" and not (c.choice("layout") == "bshd") and "positions" not in c
        c.require(plain and c.integer("rotary", 2 * half) == 2 * half, "only the half style of whole rows was written for it")
        c.require(half & (half - 1) == 0, "widths are powers of two")
        angle = angles(c, torch.arange(x.shape[2], device=DEVICE) + c.integer("offset"), 2 * half)
        cos, sin, y, rows = angle.cos().float(), angle.sin().float(), torch.empty_like(x), x.numel() // (2 * half)
        return works(lambda size: rope_kernel[(triton.cdiv(rows, size),)](x, cos, sin, y, rows, x.shape[2], HALF=half, SIZE=size),
                     y, (16,), (64,))  # fmt: skip

    @triton.jit
    def gated_kernel(gate, up, y, count, SIZE: tl.constexpr):
        at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
        there = at < count
        g = tl.load(gate + at, there, 0.0).to(tl.float32)
        result = g / (1 + tl.exp(-g)) * tl.load(up + at, there, 0.0).to(tl.float32)
        tl.store(y + at, result.to(y.dtype.element_ty), there)

    @peer(TRITON, "swiglu")
    def _(c):
        gate, up = c["gate"], c["up"]
        y, count = torch.empty_like(gate), gate.numel()
        return works(lambda size: gated_kernel[(triton.cdiv(count, size),)](gate, up, y, count, SIZE=size), y, (1024,), (4096,))

    @triton.jit
    def matmul_kernel(a, b, c, m, n, k, am, ak, bk, bn, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
                      GROUP: tl.constexpr):  # fmt: skip
        # Programs go down GROUP tiles before they go right, so that neighbours share operands in L2.
        down, right = tl.cdiv(m, M), tl.cdiv(n, N)
        band = tl.program_id(0) // (GROUP * right)
        height = tl.minimum(down - band * GROUP, GROUP)
        inside = tl.program_id(0) % (GROUP * right)
        i = ((band * GROUP + inside % height) * M + tl.arange(0, M)).to(tl.int64)
        j = (inside // height * N + tl.arange(0, N)).to(tl.int64)
        depth = tl.arange(0, K)
        left = a + (i % m)[:, None] * am + depth[None, :] * ak
        top = b + depth[:, None] * bk + (j % n)[None, :] * bn
        sums = tl.zeros((M, N), tl.float32)
        for start in range(0, k, K):
            x = tl.load(left, depth[None, :] < k - start, 0.0)
            sums = tl.dot(x, tl.load(top, depth[:, None] < k - start, 0.0), sums)
            left += K * ak
            top += K * bk
        tl.store(c + i[:, None] * n + j[None, :], sums.to(c.dtype.element_ty), (i < m)[:, None] & (j < n)[None, :])

    @peer(TRITON, "matmul")
    def _(c):
        a, b = c["a"], c["b"]
        c.require(a.dtype in (torch.float16, torch.bfloat16), "only 16-bit operands were written for it")
        plain = {"a", "b"} == set(c.inputs) and c.number("alpha", 1) == 1 and c.choice("activation", "none") == "none"
        c.require(plain, "no epilogue was written for it")
        a, b = a.mT if c.flag("trans_a") else a, b.mT if c.flag("trans_b") else b
        (m, k), n = a.shape, b.shape[1]
        y = torch.empty((m, n), device=DEVICE, dtype=a.dtype)
        def launch(M, N, K, warps, stages):
            grid = (triton.cdiv(m, M) * triton.cdiv(n, N),)
            matmul_kernel[grid](a, b, y, m, n, k, *a.stride(), *b.stride(), M=M, N=N, K=K, GROUP=8,
                                num_warps=warps, num_stages=stages)  # fmt: skip
        tiles = [(128, 256, 64, 8, 3), (128, 128, 64, 4, 4), (64, 128, 64, 4, 4)] if m > 64 else [(16, 64, 128, 4, 5), (16, 128, 128, 4, 4)]
        return works(launch, y, *tiles)

    @triton.jit
    def attention_steps(q, k, v, o, top, total, i, j, first, end, keys, offset, width, scale, D: tl.constexpr, N: tl.constexpr,
                        MASKED: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
        for start in range(first, end, N):
            column = start + j
            there = (column < keys)[:, None]
            s = tl.dot(q, tl.trans(tl.load(k + column[:, None] * D + width[None, :], there, 0.0))) * scale
            if MASKED:
                seen = (column < keys)[None, :]
                if CAUSAL:
                    seen = seen & (column[None, :] <= i[:, None] + offset)
                s = tl.where(seen, s, -1e30)
            new = tl.maximum(top, tl.max(s, 1))
            p = tl.exp2(s - new[:, None])
            grow = tl.exp2(top - new)
            total = total * grow + tl.sum(p, 1)
            o = tl.dot(p.to(v.dtype.element_ty), tl.load(v + column[:, None] * D + width[None, :], there, 0.0),
                       o * grow[:, None])  # fmt: skip
            top = new
        return o, top, total

    @triton.jit
    def attention_kernel(q, k, v, o, lse, heads, group, queries, keys, scale, D: tl.constexpr, M: tl.constexpr,
                         N: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
        head = tl.program_id(1).to(tl.int64)
        other = head // heads * (heads // group) + head % heads // group
        i = tl.program_id(0) * M + tl.arange(0, M)
        j, width = tl.arange(0, N), tl.arange(0, D)
        rows = (i < queries)[:, None]
        at = head * queries * D + i[:, None] * D + width[None, :]
        mine = tl.load(q + at, rows, 0.0)
        k += other * keys * D
        v += other * keys * D
        sums, total = tl.zeros((M, D), tl.float32), tl.zeros((M,), tl.float32)
        top = tl.full((M,), -1e30, tl.float32)
        offset = keys - queries
        # Blocks that all rows see whole need no mask.
        end, whole = keys, keys // N * N
        if CAUSAL:
            end = tl.minimum(keys, tl.maximum(0, (tl.program_id(0) + 1) * M + offset))
            whole = tl.minimum(whole, tl.maximum(0, tl.program_id(0) * M + offset + 1) // N * N)
        base2 = scale * 1.4426950408889634
        sums, top, total = attention_steps(mine, k, v, sums, top, total, i, j, 0, whole, keys, offset, width, base2, D, N, False, CAUSAL)
        sums, top, total = attention_steps(mine, k, v, sums, top, total, i, j, whole, end, keys, offset, width, base2, D, N, True, CAUSAL)
        tl.store(o + at, (sums / total[:, None]).to(o.dtype.element_ty), rows)
        tl.store(lse + head * queries + i, (top + tl.log2(total)) * 0.6931471805599453, i < queries)

    @peer(TRITON, "attention")
    def _(c):
        q, k, v = c["q"], c["k"], c["v"]
        plain = {"q", "k", "v"} == set(c.inputs) and not (c.choice("layout") == "bshd") and c.number("softcap") == 0 and c.number("dropout") == 0
        c.require(plain and c.integer("window_left", -1) < 0 and c.integer("window_right", -1) < 0, "only plain and causal attention were written for it")
        batches, heads, queries, width = q.shape
        keys = k.shape[2]
        c.require(width & (width - 1) == 0 and v.shape[3] == width, "widths are powers of two")
        c.require(keys >= queries or not c.flag("causal"), "every query sees a key")
        o, lse = torch.empty_like(q), torch.empty(q.shape[:3], device=DEVICE, dtype=torch.float32)
        scale = c.number("scale", 1 / math.sqrt(width))
        def launch(M, N, warps, stages):
            attention_kernel[(triton.cdiv(queries, M), batches * heads)](
                q, k, v, o, lse, heads, heads // k.shape[1], queries, keys, scale, D=width, M=M, N=N,
                CAUSAL=c.flag("causal"), num_warps=warps, num_stages=stages)  # fmt: skip
        return works(launch, o, (128, 128, 8, 2), (128, 64, 8, 3), (64, 64, 4, 3))

# ---- Timing ----

@contextlib.contextmanager
def limited(seconds):
    """Ends what takes longer, where Python can."""
    def ring(*_):
        raise TimeoutError(f"it took longer than {seconds:.0f} s")
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)

class Clock:
    """Median microseconds of runs that find nothing of theirs in the L2 cache."""
    def __init__(self):
        l2 = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)
        self.flush = torch.empty(max(2 * l2, 64 << 20), device=DEVICE, dtype=torch.int8)
    def elapsed(self, work, runs, flushed):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(runs):
            if flushed:
                self.flush.zero_()
            work()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / runs
    def median(self, work, warmup_ms=25, total_ms=100):
        work()
        torch.cuda.synchronize()
        once = max(1e-3, self.elapsed(work, 5, False))
        self.elapsed(work, min(10000, max(5, math.ceil(warmup_ms / once))), False)
        once = max(1e-3, self.elapsed(work, 5, True))
        marks = []
        for _ in range(min(10000, max(5, math.ceil(total_ms / once)))):
            self.flush.zero_()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            work()
            end.record()
            marks.append((start, end))
        torch.cuda.synchronize()
        times = sorted(1e3 * start.elapsed_time(end) for start, end in marks)
        return times[len(times) // 2]

# ---- The table ----

def microseconds(value):
    return f"{value / 1e3:.3g} ms" if value >= 1e4 else f"{value:.1f} us" if value >= 10 else f"{value:.2f} us"

class Table:
    """Footnotes are shared by cells that say the same."""

    PEERS = ("eager", "torch.compile", "Triton")
    def __init__(self):
        self.rows, self.notes = [], []
    def note(self, text):
        text = " ".join(text.split())[:200] or "failed without a word"
        if text not in self.notes:
            self.notes.append(text)
        return f"- [{self.notes.index(text) + 1}]"
    def cell(self, row, peer):
        time, error = row["peers"].get(peer), row["errors"].get(peer)
        return microseconds(time) if time else self.note(error) if error else "-"
    def text(self):
        lines = ["| Kernel | Shape | Sectile | eager | torch.compile | Triton | best peer / Sectile |", "| --- " * 7 + "|"]
        for row in self.rows:
            ours, best = row["sectile"], min(row["peers"].values(), default=None)
            mine = microseconds(ours) if ours else self.note(row["sectile_error"])
            ratio = f"{best / ours:.2f}" if ours and best else "-"
            cells = [row["kernel"], row["shape"], mine, *(self.cell(row, peer) for peer in self.PEERS), ratio]
            lines.append("| " + " | ".join(cells) + " |")
        lines += ["", "A ratio above 1: Sectile takes less time than the best of the others.", ""]
        lines += [f"{i + 1}. {note}" for i, note in enumerate(self.notes)]
        return "\n".join(lines)

def attempt(row, peer, action, limit):
    """The time of a peer, or why there is none."""
    try:
        with limited(limit):
            row["peers"][peer] = action()
    except NoPeer as why:
        if str(why):
            row["errors"][peer] = str(why)
    except torch.cuda.OutOfMemoryError:
        row["errors"][peer] = "out of memory"
    except Exception as error:
        row["errors"][peer] = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
    if DEVICE == "cuda":
        torch.cuda.empty_cache()

def measure(rows):
    functorch_config.donated_buffer = False  # gradients are taken again and again
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    clock, start = Clock(), time.monotonic()
    name = f"{torch.cuda.get_device_name(0)}; PyTorch {torch.__version__}" + (f", Triton {triton.__version__}" if triton else "")
    table = Table()
    for row in rows:
        table.rows.append({"kernel": row["kernel"], "shape": row["shape"], "sectile": row.get("median_us"),
                           "sectile_error": row.get("error", ""), "peers": {}, "errors": {}})  # fmt: skip
    def triton_time(c):
        if triton is None or c.kernel not in TRITON:
            raise NoPeer("")
        works, quick = TRITON[c.kernel](c), []
        for work in works:
            try:
                quick.append((clock.median(work, 2, 5), work))
            except (triton.runtime.errors.OutOfResources, triton.compiler.errors.CompilationError) as error:
                problem = error
        if not quick:
            raise problem
        return clock.median(min(quick, key=lambda pair: pair[0])[1])
    def compiled_time(c):
        torch._dynamo.reset()
        return clock.median(torch_work(c, True)[0])

    # Compilation last: it takes long, and what there is no time for costs nothing else.
    passes = [("eager", lambda c: clock.median(torch_work(c, False)[0])), ("Triton", triton_time), ("torch.compile", compiled_time)]
    for peer, action in passes:
        for row, result in zip(rows, table.rows):
            if "arguments" not in row:
                continue
            left = ARGS.budget - (time.monotonic() - start)
            if left <= 0:
                if peer != "Triton" or row["kernel"] in TRITON:
                    result["errors"][peer] = "no time was left for it"
                continue
            attempt(result, peer, lambda: action(Case(row)), min(ARGS.limit, left))
            print(f"{time.monotonic() - start:6.1f} s  {peer} {row['kernel']} {row['shape']}", file=sys.stderr, flush=True)
    print(f"{name}; medians of runs that find nothing in the L2 cache\n")
    print(table.text())
    if ARGS.json:
        with open(ARGS.json, "w") as file:
            json.dump({"device": name, "rows": table.rows}, file, indent=1)

# ---- The check on a CPU ----

def check(rows):
    failed = 0
    for row in rows:
        if "arguments" not in row:
            continue
        problems, has = [], []
        try:
            torch.manual_seed(0)
            case = Case(row)
            work, named = torch_work(case, False)
            results = named(work())
            has.append("eager")
            for name, result in results.items():
                if list(result.shape) != case.outputs[name]["shape"]:
                    expected = case.outputs[name]["shape"]
                    if math.prod(expected) != result.numel():
                        problems.append(f"{name} is {list(result.shape)}, not {expected}")
            if triton and case.kernel in TRITON:
                expected = next(iter(results.values()))
                for candidate in TRITON[case.kernel](case):
                    result = candidate().float()
                    worst = (result.reshape(expected.shape) - expected.float()).abs().max().item()
                    if not worst <= 2e-2 * max(1, expected.float().abs().max().item()):
                        problems.append(f"Triton is {worst} away")
                has.append("Triton")
        except NoPeer as why:
            has.append(f"no: {why}" if str(why) else "no peer")
        except Exception as error:
            problems.append(f"{type(error).__name__}: {error}")
        failed += bool(problems)
        print(f"{'FAILED' if problems else 'ok':6}  {row['kernel']} {row['shape']}: {', '.join(has + problems)}", flush=True)
    return 1 if failed else 0

def main():
    with open(ARGS.file) as file:
        rows = json.load(file)["kernels"]
    if ARGS.kernel:
        rows = [row for row in rows if row["kernel"] in ARGS.kernel.split(",")]
    if ARGS.cpu_check:
        sys.exit(check(rows))
    if any(row.get("estimated") for row in rows):
        sys.exit(f"{ARGS.file} has estimates, not times")
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU")
    measure(rows)

main()
