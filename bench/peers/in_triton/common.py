# What the Triton kernels share: how to offer choices, sizes of rows, activations.
import math

import torch
import triton
import triton.language as tl

from case import NoPeer


def works(launch, result, *choices):
    """The launch with each of these tuples of numbers; `result` is what it writes."""
    return [lambda choice=choice: (launch(*choice), result)[1] for choice in choices]


def rows_of(c, *names):
    for name in names:
        if not c[name].is_contiguous():
            raise NoPeer("not contiguous")
    return math.prod(c[names[0]].shape[:-1]), c[names[0]].shape[-1]


def row_warps(width):
    return 4 if width <= 2048 else 8 if width <= 8192 else 16


def processors():
    return torch.cuda.get_device_properties(0).multi_processor_count if torch.cuda.is_available() else 4


def require_power_of_two(c, width):
    c.require(width & (width - 1) == 0 and width >= 16, "widths are powers of two")


ACTIVATIONS = ("none", "relu", "silu", "gelu", "gelu_tanh", "sigmoid")


@triton.jit
def activated(x, KIND: tl.constexpr):
    if KIND == "relu":
        y = tl.maximum(x, 0.0)
    elif KIND == "silu":
        y = x * tl.sigmoid(x)
    elif KIND == "gelu":
        y = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    elif KIND == "gelu_tanh":
        # (1 + tanh(u)) / 2 = sigmoid(2 u)
        y = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    elif KIND == "sigmoid":
        y = tl.sigmoid(x)
    else:
        y = x
    return y


@triton.jit
def slope(x, KIND: tl.constexpr):
    if KIND == "relu":
        y = tl.where(x > 0, 1.0, 0.0)
    elif KIND == "silu":
        s = tl.sigmoid(x)
        y = s * (1 + x * (1 - s))
    elif KIND == "gelu":
        y = 0.5 * (1 + tl.erf(x * 0.7071067811865476)) + x * 0.3989422804014327 * tl.exp(-0.5 * x * x)
    elif KIND == "gelu_tanh":
        s = tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
        y = s + x * s * (1 - s) * 1.5957691216057308 * (1 + 0.134145 * x * x)
    elif KIND == "sigmoid":
        s = tl.sigmoid(x)
        y = s * (1 - s)
    else:
        y = tl.full(x.shape, 1.0, tl.float32)
    return y
