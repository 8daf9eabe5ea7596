# Over time in Triton: the linear recurrence by chunks, masked means.
import math

import torch
import triton
import triton.language as tl

from case import DEVICE, TRITON, peer

from .common import require_power_of_two, works


@triton.jit
def decays_of(g, chunk, length, CHUNK: tl.constexpr, GATED: tl.constexpr):
    """The logarithms of a chunk's decays, added up to each step, and those of all steps."""
    logs = tl.zeros((CHUNK,), tl.float32)
    if GATED:
        step = chunk * CHUNK + tl.arange(0, CHUNK)
        logs = tl.load(g + step, step < length, 0.0)
    return tl.cumsum(logs, 0), tl.sum(logs, 0)


@triton.jit
def states_kernel(k, v, g, first, states, last, length, scale, DK: tl.constexpr, DV: tl.constexpr, CHUNK: tl.constexpr,
                  COLUMNS: tl.constexpr, GATED: tl.constexpr, INITIAL: tl.constexpr, REVERSE: tl.constexpr):  # fmt: skip
    """The state before each chunk, and the last one; or, in reverse, the gradients of the state behind each."""
    head, chunks = tl.program_id(1).to(tl.int64), tl.cdiv(length, CHUNK)
    row, column, place = tl.arange(0, DK), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, CHUNK)
    at = row[:, None] * DV + column[None, :]
    state = tl.zeros((DK, COLUMNS), tl.float32)
    if INITIAL:
        state = tl.load(first + head * DK * DV + at)
    for number in range(chunks):
        chunk = chunks - 1 - number if REVERSE else number
        tl.store(states + (head * chunks + chunk) * DK * DV + at, state.to(states.dtype.element_ty))
        total, whole = decays_of(g + head * length, chunk, length, CHUNK, GATED)
        step = chunk * CHUNK + place
        key = tl.load(k + (head * length + step)[:, None] * DK + row[None, :], (step < length)[:, None], 0.0)
        value = tl.load(v + (head * length + step)[:, None] * DV + column[None, :], (step < length)[:, None], 0.0)
        if GATED:
            key = (key * tl.exp(whole - total)[:, None]).to(value.dtype)
        state = state * tl.exp(whole) + tl.dot(tl.trans(key), value) * scale
    tl.store(last + head * DK * DV + at, state)


@triton.jit
def outputs_kernel(q, k, v, g, states, o, length, scale, DK: tl.constexpr, DV: tl.constexpr, CHUNK: tl.constexpr,
                   COLUMNS: tl.constexpr, GATED: tl.constexpr):  # fmt: skip
    head, chunk, place = tl.program_id(2).to(tl.int64), tl.program_id(1), tl.arange(0, CHUNK)
    row, column, step = tl.arange(0, DK), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), chunk * CHUNK + place
    there = (step < length)[:, None]
    keys = (head * length + step)[:, None] * DK + row[None, :]
    values = (head * length + step)[:, None] * DV + column[None, :]
    query, key, value = tl.load(q + keys, there, 0.0), tl.load(k + keys, there, 0.0), tl.load(v + values, there, 0.0)
    total, _ = decays_of(g + head * length, chunk, length, CHUNK, GATED)
    scores = tl.dot(query, tl.trans(key))
    later = place[:, None] >= place[None, :]
    scores = tl.where(later, scores * tl.exp(tl.where(later, total[:, None] - total[None, :], 0.0)), 0.0)
    state = tl.load(states + (head * tl.num_programs(1) + chunk) * DK * DV + row[:, None] * DV + column[None, :])
    before = tl.dot(query, state.to(query.dtype)) * tl.exp(total)[:, None]
    result = (before + tl.dot(scores.to(value.dtype), value)) * scale
    tl.store(o + values, result.to(o.dtype.element_ty), there)


@triton.jit
def gradients_kernel(q, k, v, do, states, slopes, dq, dk, dv, length, scale, DK: tl.constexpr, DV: tl.constexpr,
                     CHUNK: tl.constexpr):  # fmt: skip
    head, chunk, place = tl.program_id(1).to(tl.int64), tl.program_id(0), tl.arange(0, CHUNK)
    row, column, step = tl.arange(0, DK), tl.arange(0, DV), chunk * CHUNK + place
    there = (step < length)[:, None]
    keys = (head * length + step)[:, None] * DK + row[None, :]
    values = (head * length + step)[:, None] * DV + column[None, :]
    query, key = tl.load(q + keys, there, 0.0), tl.load(k + keys, there, 0.0)
    value, slope = tl.load(v + values, there, 0.0), tl.load(do + values, there, 0.0)
    at = (head * tl.num_programs(0) + chunk) * DK * DV + row[:, None] * DV + column[None, :]
    state, change = tl.load(states + at).to(query.dtype), tl.load(slopes + at).to(query.dtype)
    earlier = place[:, None] <= place[None, :]  # of [key, query]
    weights = tl.where(earlier, tl.dot(key, tl.trans(query)) * scale, 0.0).to(query.dtype)
    tl.store(dv + values, (tl.dot(key, change) + tl.dot(weights, slope)).to(dv.dtype.element_ty), there)
    weights = tl.where(earlier, tl.dot(value, tl.trans(slope)) * scale, 0.0).to(query.dtype)
    tl.store(dk + keys, (tl.dot(value, tl.trans(change)) + tl.dot(weights, query)).to(dk.dtype.element_ty), there)
    result = tl.dot(slope, tl.trans(state)) * scale + tl.dot(tl.trans(weights), key)
    tl.store(dq + keys, result.to(dq.dtype.element_ty), there)


class Recurrence:
    def __init__(self, c):
        self.q, self.k, self.v = (c[name] for name in "qkv")
        c.require("gk" not in c and not c.flag("reverse"), "decays of channels and the reverse order were not written for it")
        c.require(self.q.dtype in (torch.float16, torch.bfloat16), "only 16-bit operands were written for it")
        (batches, heads, self.length, self.dk), self.dv = self.q.shape, self.v.shape[3]
        for width in (self.dk, self.dv):
            require_power_of_two(c, width)
        self.heads, self.scale = batches * heads, c.number("scale", 1 / math.sqrt(self.dk))
        self.last = torch.empty((batches, heads, self.dk, self.dv), device=DEVICE, dtype=torch.float32)

    def room(self, chunk):
        return torch.empty((self.heads, triton.cdiv(self.length, chunk), self.dk, self.dv), device=DEVICE, dtype=torch.float32)

    def states(self, k, v, g, initial, states, scale, chunk, columns, reverse, warps=4):
        columns = min(columns, self.dv)
        states_kernel[(self.dv // columns, self.heads)](
            k, v, self.last if g is None else g, self.last if initial is None else initial, states, self.last, self.length, scale,
            DK=self.dk, DV=self.dv, CHUNK=chunk, COLUMNS=columns, GATED=g is not None, INITIAL=initial is not None,
            REVERSE=reverse, num_warps=warps, num_stages=3)  # fmt: skip


@peer(TRITON, "linear_recurrence")
def _(c):
    r, g, initial = Recurrence(c), *(c[name] if name in c else None for name in ("g", "initial_state"))
    o = torch.empty_like(r.v)

    def with_chunk(chunk, columns, warps):
        states, columns = r.room(chunk), min(columns, r.dv)

        def work():
            r.states(r.k, r.v, g, initial, states, 1.0, chunk, 32, False)
            outputs_kernel[(r.dv // columns, triton.cdiv(r.length, chunk), r.heads)](
                r.q, r.k, r.v, r.last if g is None else g, states, o, r.length, r.scale, DK=r.dk, DV=r.dv, CHUNK=chunk,
                COLUMNS=columns, GATED=g is not None, num_warps=warps)  # fmt: skip
            return o, r.last

        return work

    return [with_chunk(64, 128, 4), with_chunk(128, 128, 8), with_chunk(64, 64, 4)]


@peer(TRITON, "linear_recurrence_backward")
def _(c):
    r, do = Recurrence(c), c["do"]
    c.require(not c.given("g", "initial_state", "dfinal_state"), "gradients of decays and states were not written for it")
    gradients = tuple(torch.empty_like(x) for x in (r.q, r.k, r.v))

    def with_chunk(chunk, warps):
        states, slopes = r.room(chunk), r.room(chunk)

        def work():
            r.states(r.k, r.v, None, None, states, 1.0, chunk, 32, False)
            r.states(r.q, do, None, None, slopes, r.scale, chunk, 32, True)
            gradients_kernel[(triton.cdiv(r.length, chunk), r.heads)](
                r.q, r.k, r.v, do, states, slopes, *gradients, r.length, r.scale, DK=r.dk, DV=r.dv, CHUNK=chunk, num_warps=warps)  # fmt: skip
            return gradients

        return work

    return [with_chunk(64, 4), with_chunk(64, 8), with_chunk(128, 8)]


@triton.jit
def mean_pool_kernel(x, mask, y, length, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    batch = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total, count = tl.zeros((ROWS, COLUMNS), tl.float32), tl.zeros((ROWS,), tl.float32)
    for first in range(0, length, ROWS):
        row = first + tl.arange(0, ROWS)
        kept = tl.load(mask + batch * length + row, row < length, 0) != 0
        # Rows that are left out are not read.
        at = (batch * length + row)[:, None] * width + column[None, :]
        total += tl.load(x + at, kept[:, None] & (column < width)[None, :], 0.0).to(tl.float32)
        count += kept.to(tl.float32)
    mean = tl.sum(total, 0) / tl.maximum(tl.sum(count, 0), 1.0)
    tl.store(y + batch * width + column, mean.to(y.dtype.element_ty), column < width)


@peer(TRITON, "mean_pool")
def _(c):
    c.require("mask" in c, "only the masked mean was written for it")
    x, mask = c["x"], c["mask"]
    (batches, length, width), y = x.shape, torch.empty((x.shape[0], x.shape[2]), device=DEVICE, dtype=x.dtype)

    def launch(rows, columns, warps):
        mean_pool_kernel[(triton.cdiv(width, columns), batches)](x, mask, y, length, width, ROWS=rows, COLUMNS=columns, num_warps=warps)

    return works(launch, y, (32, 64, 4), (64, 128, 8), (32, 128, 4))


@triton.jit
def mean_pool_backward_kernel(mask, dy, dx, length, width, ROWS: tl.constexpr, SIZE: tl.constexpr):
    batch, column = tl.program_id(1).to(tl.int64), tl.arange(0, SIZE)
    count = tl.zeros((1024,), tl.float32)
    for first in range(0, length, 1024):
        row = first + tl.arange(0, 1024)
        count += (tl.load(mask + batch * length + row, row < length, 0) != 0).to(tl.float32)
    slope = tl.load(dy + batch * width + column, column < width, 0.0).to(tl.float32) / tl.maximum(tl.sum(count, 0), 1.0)
    for row in range(tl.program_id(0) * ROWS, tl.minimum((tl.program_id(0) + 1) * ROWS, length)):
        kept = tl.load(mask + batch * length + row) != 0
        result = tl.where(kept, slope, 0.0).to(dx.dtype.element_ty)
        tl.store(dx + (batch * length + row) * width + column, result, column < width)


@peer(TRITON, "mean_pool_backward")
def _(c):
    c.require("mask" in c, "only the masked mean was written for it")
    mask, dy, dx = c["mask"], c["dy"], torch.empty_like(c["x"])
    (batches, length, width), size = dx.shape, triton.next_power_of_2(dx.shape[2])

    def launch(rows, warps):
        mean_pool_backward_kernel[(triton.cdiv(length, rows), batches)](mask, dy, dx, length, width, ROWS=rows, SIZE=size, num_warps=warps)

    return works(launch, dx, (16, 4), (64, 4), (64, 8))


@triton.jit
def chunk_mean_kernel(x, y, width, CHUNK: tl.constexpr, COLUMNS: tl.constexpr, BACKWARD: tl.constexpr):
    # x has CHUNK times the rows of y; backward, x is what is written.
    chunk, column = tl.program_id(1).to(tl.int64), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    at = (chunk * CHUNK + tl.arange(0, CHUNK))[:, None] * width + column[None, :]
    there = (column < width)[None, :]
    if BACKWARD:
        slope = tl.load(y + chunk * width + column, column < width, 0.0).to(tl.float32) / CHUNK
        tl.store(x + at, tl.broadcast_to(slope[None, :], (CHUNK, COLUMNS)).to(x.dtype.element_ty), there)
    else:
        mean = tl.sum(tl.load(x + at, there, 0.0).to(tl.float32), 0) / CHUNK
        tl.store(y + chunk * width + column, mean.to(y.dtype.element_ty), column < width)


@peer(TRITON, "chunk_mean_pool", "chunk_mean_pool_backward")
def _(c):
    chunk, (batches, length, heads, width) = c.integer("chunk", 64), c["x"].shape
    c.require("cu_seqlens" not in c and length % chunk == 0 and chunk & (chunk - 1) == 0, "whole chunks of a power of two only")
    if c.is_backward():
        x, y = torch.empty_like(c["x"]), c["dy"]
    else:
        x, y = c["x"], torch.empty((batches, length // chunk, heads, width), device=DEVICE, dtype=c["x"].dtype)

    def launch(columns, warps):
        grid = (triton.cdiv(heads * width, columns), batches * length // chunk)
        chunk_mean_kernel[grid](x, y, heads * width, CHUNK=chunk, COLUMNS=columns, BACKWARD=c.is_backward(), num_warps=warps)

    return works(launch, x if c.is_backward() else y, (64, 4), (128, 4), (256, 8))
