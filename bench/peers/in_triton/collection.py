# Reductions, scans, sorts, histograms in Triton.
import torch
import triton
import triton.language as tl

from case import DEVICE, TRITON, peer

from .common import processors, row_warps, rows_of, works


@triton.jit
def reduce_kernel(x, y, width, KIND: tl.constexpr, SIZE: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, SIZE)
    there = column < width
    values = tl.load(x + row * width + column, there, 0.0).to(tl.float32)
    if KIND == "max":
        result = tl.max(tl.where(there, values, -float("inf")), 0)
    elif KIND == "min":
        result = tl.min(tl.where(there, values, float("inf")), 0)
    else:
        result = tl.sum(values, 0)
        if KIND == "mean":
            result /= width
    tl.store(y + row, result.to(y.dtype.element_ty))


@peer(TRITON, "reduce")
def _(c):
    kind = c.choice("op", "sum")
    c.require(kind in ("sum", "mean", "max", "min") and c["x"].dtype.is_floating_point, f"{kind} was not written for it")
    (rows, width), x = rows_of(c, "x"), c["x"]
    y, size = torch.empty(x.shape[:-1], device=DEVICE, dtype=x.dtype), triton.next_power_of_2(width)
    launch = lambda warps: reduce_kernel[(rows,)](x, y, width, KIND=kind, SIZE=size, num_warps=warps)  # noqa: E731
    return works(launch, y, (4,), (row_warps(size),))


@triton.jit
def scan_kernel(x, y, width, REVERSE: tl.constexpr, SIZE: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, SIZE)
    values = tl.load(x + row * width + column, column < width, 0.0).to(tl.float32)
    tl.store(y + row * width + column, tl.cumsum(values, 0, reverse=REVERSE).to(y.dtype.element_ty), column < width)


@peer(TRITON, "scan")
def _(c):
    c.require(c.choice("op", "cumsum") == "cumsum" and c["x"].dtype.is_floating_point, "only sums were written for it")
    (rows, width), x, y = rows_of(c, "x"), c["x"], torch.empty_like(c["x"])
    size = triton.next_power_of_2(width)
    launch = lambda warps: scan_kernel[(rows,)](x, y, width, REVERSE=c.flag("reverse"), SIZE=size, num_warps=warps)  # noqa: E731
    return works(launch, y, (4,), (row_warps(size),))


@triton.jit
def packed_keys(x, column, DESCENDING: tl.constexpr):
    """A 16-bit number and its place as one integer, so that sorting integers sorts numbers, equal ones by their place."""
    bits = x.to(tl.int16, bitcast=True).to(tl.int32)
    bits = bits ^ ((bits >> 15) & 0x7FFF)
    return (bits << 16) | (0xFFFF - column if DESCENDING else column)


@triton.jit
def unpacked(key, DESCENDING: tl.constexpr):
    bits = key >> 16
    bits = bits ^ ((bits >> 15) & 0x7FFF)
    column = key & 0xFFFF
    return bits.to(tl.int16).to(tl.float16, bitcast=True), 0xFFFF - column if DESCENDING else column


@triton.jit
def sort_kernel(x, y, indices, width, DESCENDING: tl.constexpr, VALUES: tl.constexpr, SIZE: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, SIZE)
    there = column < width
    key = packed_keys(tl.load(x + row * width + column, there, 0.0), column, DESCENDING)
    # What is not there goes behind everything.
    key = tl.where(there, key, -2147483648 if DESCENDING else 2147483647)
    values, places = unpacked(tl.sort(key, descending=DESCENDING), DESCENDING)
    if VALUES:
        tl.store(y + row * width + column, values, there)
    tl.store(indices + row * width + column, places.to(tl.int64), there)


@peer(TRITON, "sort", "argsort")
def _(c):
    (rows, width), x = rows_of(c, "x"), c["x"]
    size, values = triton.next_power_of_2(width), c.kernel == "sort"
    c.require(x.dtype == torch.float16 and size <= 16384, "short rows of f16 only")
    y, indices = torch.empty_like(x), torch.empty(x.shape, device=DEVICE, dtype=torch.int64)

    def launch(warps):
        sort_kernel[(rows,)](x, y, indices, width, DESCENDING=c.flag("descending"), VALUES=values, SIZE=size, num_warps=warps)

    return works(launch, (y, indices) if values else (indices,), (1,), (2,), (4,))


@triton.jit
def topk_part_kernel(x, parts, width, K: tl.constexpr, SIZE: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = part * SIZE + tl.arange(0, SIZE)
    there = column < width
    key = tl.where(there, packed_keys(tl.load(x + row * width + column, there, 0.0), column, True), -2147483648)
    tl.store(parts + (row * tl.num_programs(1) + part) * K + tl.arange(0, K), tl.topk(key, K))


@triton.jit
def topk_kernel(parts, y, indices, count, k, K: tl.constexpr, SIZE: tl.constexpr):
    row, place, best = tl.program_id(0).to(tl.int64), tl.arange(0, SIZE), tl.arange(0, K)
    values, places = unpacked(tl.topk(tl.load(parts + row * count + place, place < count, -2147483648), K), True)
    tl.store(y + row * k + best, values, best < k)
    tl.store(indices + row * k + best, places.to(tl.int64), best < k)


@peer(TRITON, "topk")
def _(c):
    (rows, width), x, k = rows_of(c, "x"), c["x"], c.integer("k", 8)
    c.require(x.dtype == torch.float16 and width <= 65536 and c.choice("largest") != "false", "the largest of rows of f16 only")
    padded = max(2, triton.next_power_of_2(k))
    y, indices = (torch.empty((*x.shape[:-1], k), device=DEVICE, dtype=dtype) for dtype in (x.dtype, torch.int64))

    def with_size(size, warps):
        size = max(size, padded)
        count = triton.cdiv(width, size) * padded
        parts = torch.empty((rows, count), device=DEVICE, dtype=torch.int32)

        def work():
            topk_part_kernel[(rows, triton.cdiv(width, size))](x, parts, width, K=padded, SIZE=size, num_warps=warps)
            topk_kernel[(rows,)](parts, y, indices, count, k, K=padded, SIZE=triton.next_power_of_2(count), num_warps=1)
            return y, indices

        return work

    return [with_size(1024, 1), with_size(2048, 4), with_size(4096, 4)]


@triton.jit
def histogram_kernel(x, counts, count, bins, BINS: tl.constexpr, SIZE: tl.constexpr):
    total = tl.zeros((BINS,), tl.int32)
    for block in range(tl.program_id(0), tl.cdiv(count, SIZE), tl.num_programs(0)):
        at = tl.cast(block, tl.int64) * SIZE + tl.arange(0, SIZE)
        values = tl.load(x + at, at < count, -1)
        inside = (values >= 0) & (values < bins)
        total += tl.histogram(tl.where(inside, values, 0), BINS, mask=inside)
    bin = tl.arange(0, BINS)
    tl.atomic_add(counts + bin, total, bin < bins)


@peer(TRITON, "histogram")
def _(c):
    x, bins = c["x"], c.integer("bins", 256)
    counts = torch.empty(bins, device=DEVICE, dtype=torch.int32)

    def launch(each, size, warps):
        counts.zero_()
        histogram_kernel[(each * processors(),)](x, counts, x.numel(), bins, BINS=triton.next_power_of_2(bins), SIZE=size, num_warps=warps)

    return works(launch, counts, (4, 2048, 4), (8, 1024, 4), (8, 4096, 8))
