# Rotations in Triton, alone and before attention.
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
    attention.prepare_gradients(c["do"])
    dq, dk = (torch.empty_like(x) for x in attention.gradients[:2])

    def launch(*choice):
        attention.backward(*choice)
        turns[0](attention.gradients[0], dq, -1.0)
        turns[1](attention.gradients[1], dk, -1.0)

    return works(launch, (dq, dk, attention.gradients[2]), *BACKWARD)
