# Positions in Triton: rotations, alone and before attention, and absolute embeddings.
import math

import torch
import triton
import triton.language as tl

from case import DEVICE, TRITON, peer
from in_pytorch.positions import angles

from .attention import BACKWARD, FORWARD, Attention
from .common import require_power_of_two, works


@triton.jit
def rope_kernel(x, cos, sin, y, rows, length, sign, HALF: tl.constexpr, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    pair = tl.arange(0, HALF)
    there = (row < rows)[:, None]
    angle = (row % length)[:, None] * HALF + pair
    c = tl.load(cos + angle, there, 0.0)
    s = tl.load(sin + angle, there, 0.0) * sign
    first = row[:, None] * (2 * HALF) + pair
    a = tl.load(x + first, there, 0.0).to(tl.float32)
    b = tl.load(x + first + HALF, there, 0.0).to(tl.float32)
    tl.store(y + first, (a * c - b * s).to(y.dtype.element_ty), there)
    tl.store(y + first + HALF, (b * c + a * s).to(y.dtype.element_ty), there)


class Rotation:
    """Of tensors [..., S, D] by the angles of positions that begin with `first`."""

    def __init__(self, c, length, width, first):
        plain = c.choice("style", "half") == "half" and c.choice("layout", "bhsd") == "bhsd" and "positions" not in c
        c.require(plain and c.integer("rotary", width) == width, "only the half style of whole rows was written for it")
        require_power_of_two(c, width)
        angle = angles(c, torch.arange(length, device=DEVICE) + first, width)
        self.cos, self.sin, self.length, self.half = angle.cos().float(), angle.sin().float(), length, width // 2

    def __call__(self, x, y, sign, size=32):
        rows = x.numel() // (2 * self.half)
        rope_kernel[(triton.cdiv(rows, size),)](x, self.cos, self.sin, y, rows, self.length, sign, HALF=self.half, SIZE=size)


@peer(TRITON, "rope", "rope_backward")
def _(c):
    x, sign = (c["dy"], -1.0) if c.is_backward() else (c["x"], 1.0)
    turn, y = Rotation(c, x.shape[-2], x.shape[-1], c.integer("offset")), torch.empty_like(x)
    return works(lambda size: turn(x, y, sign, size), y, (16,), (32,), (64,))


def rotated(c):
    """The rotations of queries and keys, and attention of what they leave in memory."""
    q, k = c["q"], c["k"]
    turns = [Rotation(c, q.shape[2], q.shape[3], k.shape[2] - q.shape[2]), Rotation(c, k.shape[2], k.shape[3], 0)]
    c.remark("turns queries and keys in kernels of their own")
    attention = Attention(c, torch.empty_like(q), torch.empty_like(k), c["v"])

    def turn():
        turns[0](q, attention.q, 1.0)
        turns[1](k, attention.k, 1.0)

    return attention, turns, turn


@peer(TRITON, "rope_attention")
def _(c):
    attention, _, turn = rotated(c)

    def launch(*choice):
        turn()
        attention.forward(*choice)

    return works(launch, attention.o, *FORWARD)


@peer(TRITON, "rope_attention_backward")
def _(c):
    attention, turns, turn = rotated(c)
    turn()
    attention.prepare_gradients(c["do"], 64, 64, 4, 2)
    dq, dk = (torch.empty_like(x) for x in attention.gradients[:2])

    def launch(*choice):
        attention.backward(*choice)
        turns[0](attention.gradients[0], dq, -1.0)
        turns[1](attention.gradients[1], dk, -1.0)

    return works(launch, (dq, dk, attention.gradients[2]), *BACKWARD)


@triton.jit
def add_positions_kernel(x, table, y, batches, length, width, first, base, scale, SINES: tl.constexpr, SIZE: tl.constexpr):
    # A position's row, made or read once for all batches.
    position, column = tl.program_id(0).to(tl.int64), tl.arange(0, SIZE)
    there = column < width
    if SINES:
        angle = (position + first).to(tl.float32) * tl.exp2(column // 2 * 2 * base)
        row = tl.where(column % 2 == 0, tl.sin(angle), tl.cos(angle))
    else:
        row = tl.load(table + (position + first) * width + column, there, 0.0).to(tl.float32)
    for batch in range(batches):
        at = (tl.cast(batch, tl.int64) * length + position) * width + column
        values = tl.load(x + at, there, 0.0).to(tl.float32) * scale + row
        tl.store(y + at, values.to(y.dtype.element_ty), there)


@triton.jit
def add_positions_backward_kernel(dy, dx, dtable, batches, length, width, first, scale, TABLE: tl.constexpr,
                                  SIZE: tl.constexpr):  # fmt: skip
    position, column = tl.program_id(0).to(tl.int64) - first, tl.arange(0, SIZE)
    there = (column < width) & (position >= 0) & (position < length)
    total = tl.zeros((SIZE,), tl.float32)
    for batch in range(batches):
        at = (tl.cast(batch, tl.int64) * length + position) * width + column
        d = tl.load(dy + at, there, 0.0).to(tl.float32)
        total += d
        tl.store(dx + at, (d * scale).to(dx.dtype.element_ty), there)
    if TABLE:
        tl.store(dtable + (position + first) * width + column, total.to(dtable.dtype.element_ty), column < width)


@peer(TRITON, "add_positions", "sinusoidal")
def _(c):
    c.require("w" not in c and "positions" not in c, "only consecutive positions without a norm were written for it")
    x, sines = c["x"], c.kernel == "sinusoidal"
    (batches, length, width), y = x.shape, torch.empty_like(x)
    base = -math.log2(c.number("theta", 10000)) / width

    def launch(warps):
        add_positions_kernel[(length,)](x, x if sines else c["table"], y, batches, length, width, c.integer("offset"), base,
                                        c.number("scale", 1), SINES=sines, SIZE=triton.next_power_of_2(width), num_warps=warps)  # fmt: skip

    return works(launch, y, (2,), (4,), (8,))


@peer(TRITON, "add_positions_backward", "sinusoidal_backward")
def _(c):
    c.require("w" not in c and "positions" not in c, "only consecutive positions without a norm were written for it")
    dy, tabled = c["dy"], c.kernel.startswith("add")
    (batches, length, width), dx = dy.shape, torch.empty_like(dy)
    dtable, first = torch.empty_like(c["table"] if tabled else dy), c.integer("offset") if tabled else 0
    rows = dtable.shape[0] if tabled else length

    def launch(warps):
        add_positions_backward_kernel[(rows,)](dy, dx, dtable, batches, length, width, first, c.number("scale", 1), TABLE=tabled,
                                               SIZE=triton.next_power_of_2(width), num_warps=warps)  # fmt: skip

    return works(launch, (dx, dtable) if tabled else dx, (2,), (4,), (8,))
