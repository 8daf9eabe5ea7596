# Element by element in Triton: sums, activations, gates, dropout, tables.
import torch
import triton
import triton.language as tl

from case import DEVICE, TRITON, peer
from in_pytorch.elements import gate_of

from .common import ACTIVATIONS, activated, row_warps, slope, works

SIZES = ((1024, 4), (2048, 4), (4096, 8))


def over(count, kernel, *tensors, **constants):
    """Launches of an elementwise kernel for works()."""
    return lambda size, warps: kernel[(triton.cdiv(count, size),)](*tensors, count, SIZE=size, num_warps=warps, **constants)


@triton.jit
def add_kernel(x, y, z, count, SIZE: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    there = at < count
    tl.store(z + at, tl.load(x + at, there) + tl.load(y + at, there), there)


@peer(TRITON, "vector_add")
def _(c):
    x, y = c["x"], c["y"]
    z = torch.empty_like(x)
    return works(over(x.numel(), add_kernel, x, y, z), z, *SIZES)


@triton.jit
def activation_kernel(x, dy, y, count, KIND: tl.constexpr, BACKWARD: tl.constexpr, SIZE: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    there = at < count
    value = tl.load(x + at, there, 0.0).to(tl.float32)
    if BACKWARD:
        result = tl.load(dy + at, there, 0.0).to(tl.float32) * slope(value, KIND)
    else:
        result = activated(value, KIND)
    tl.store(y + at, result.to(y.dtype.element_ty), there)


@peer(TRITON, "activation", "activation_backward")
def _(c):
    x, kind = c["x"], c.choice("kind", "gelu")
    c.require(kind in ACTIVATIONS, f"{kind} was not written for it")
    y, dy = torch.empty_like(x), c["dy"] if c.is_backward() else x
    return works(over(x.numel(), activation_kernel, x, dy, y, KIND=kind, BACKWARD=c.is_backward()), y, *SIZES)


@triton.jit
def gated_kernel(gate, up, y, count, KIND: tl.constexpr, SIZE: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    there = at < count
    g = tl.load(gate + at, there, 0.0).to(tl.float32)
    result = activated(g, KIND) * tl.load(up + at, there, 0.0).to(tl.float32)
    tl.store(y + at, result.to(y.dtype.element_ty), there)


@triton.jit
def gated_backward_kernel(gate, up, dy, dgate, dup, count, KIND: tl.constexpr, SIZE: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    there = at < count
    g = tl.load(gate + at, there, 0.0).to(tl.float32)
    u = tl.load(up + at, there, 0.0).to(tl.float32)
    d = tl.load(dy + at, there, 0.0).to(tl.float32)
    tl.store(dgate + at, (d * u * slope(g, KIND)).to(dgate.dtype.element_ty), there)
    tl.store(dup + at, (d * activated(g, KIND)).to(dup.dtype.element_ty), there)


@peer(TRITON, "swiglu", "geglu")
def _(c):
    gate, y = c["gate"], torch.empty_like(c["gate"])
    return works(over(gate.numel(), gated_kernel, gate, c["up"], y, KIND=gate_of(c)), y, *SIZES)


@peer(TRITON, "swiglu_backward", "geglu_backward")
def _(c):
    gate = c["gate"]
    results = torch.empty_like(gate), torch.empty_like(gate)
    return works(over(gate.numel(), gated_backward_kernel, gate, c["up"], c["dy"], *results, KIND=gate_of(c)), results, *SIZES)


@triton.jit
def kept_store(x, y, at, count, draw, share, scale):
    there = at < count
    value = tl.load(x + at, there, 0.0).to(tl.float32)
    tl.store(y + at, tl.where(draw < share, value * scale, 0.0).to(y.dtype.element_ty), there)


@triton.jit
def dropout_kernel(x, y, share, scale, seed, count, SIZE: tl.constexpr):
    # One draw of Philox is four numbers: one for an element of each quarter of the block.
    QUARTER: tl.constexpr = SIZE // 4
    place = tl.arange(0, QUARTER)
    a, b, c, d = tl.rand4x(seed, tl.program_id(0) * QUARTER + place)
    first = tl.program_id(0).to(tl.int64) * SIZE + place
    kept_store(x, y, first, count, a, share, scale)
    kept_store(x, y, first + QUARTER, count, b, share, scale)
    kept_store(x, y, first + 2 * QUARTER, count, c, share, scale)
    kept_store(x, y, first + 3 * QUARTER, count, d, share, scale)


@peer(TRITON, "dropout", "dropout_backward")
def _(c):
    """Forward and backward are the same: the numbers are drawn again."""
    x, p = c["dy" if c.is_backward() else "x"], c.number("p", 0.5)
    y = torch.empty_like(x)
    return works(over(x.numel(), dropout_kernel, x, y, 1 - p, 1 / (1 - p), 7), y, *SIZES)


@triton.jit
def embedding_kernel(indices, table, y, width, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.load(indices + row).to(tl.int64)
    column = tl.arange(0, SIZE)
    values = tl.load(table + place * width + column, column < width)
    tl.store(y + row * width + column, values, column < width)


@peer(TRITON, "embedding")
def _(c):
    indices, table = c["indices"], c["table"]
    width, y = table.shape[1], torch.empty((*indices.shape, table.shape[1]), device=DEVICE, dtype=table.dtype)
    size = triton.next_power_of_2(width)
    launch = lambda warps: embedding_kernel[(indices.numel(),)](indices, table, y, width, SIZE=size, num_warps=warps)  # noqa: E731
    return works(launch, y, (4,), (row_warps(size),))


@triton.jit
def embedding_backward_kernel(indices, dy, sums, width, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.load(indices + row).to(tl.int64)
    column = tl.arange(0, SIZE)
    values = tl.load(dy + row * width + column, column < width, 0.0).to(tl.float32)
    tl.atomic_add(sums + place * width + column, values, column < width)


@peer(TRITON, "embedding_backward")
def _(c):
    indices, dy, table = c["indices"], c["dy"], c["table"]
    c.require(table.dtype != torch.float32, "only 16-bit tables were written for it")
    c.remark("adds atomically, in no fixed order")
    width, size = table.shape[1], triton.next_power_of_2(table.shape[1])
    sums = torch.empty(table.shape, device=DEVICE, dtype=torch.float32)

    def work():
        sums.zero_()
        embedding_backward_kernel[(indices.numel(),)](indices, dy, sums, width, SIZE=size, num_warps=row_warps(size))
        return sums.to(table.dtype)

    return [work]
