# Attention in Triton, forward and backward, of whole batches and of packed sequences.
import math

import torch
import triton
import triton.language as tl

from case import DEVICE, TRITON, peer

from .common import require_power_of_two, works

LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def attention_steps(q, k, v, o, top, total, i, j, first, end, keys, offset, kr, width, scale, N: tl.constexpr,
                    MASKED: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    for start in range(first, end, N):
        column = (start + j).to(tl.int64)
        there = (column < keys)[:, None]
        s = tl.dot(q, tl.trans(tl.load(k + column[:, None] * kr + width[None, :], there, 0.0))) * scale
        if MASKED:
            seen = (column < keys)[None, :]
            if CAUSAL:
                seen = seen & (column[None, :] <= i[:, None] + offset)
            s = tl.where(seen, s, -1e30)
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        if MASKED:
            p = tl.where(s > -1e29, p, 0.0)  # a row may have seen nothing yet
        grow = tl.exp2(top - new)
        total = total * grow + tl.sum(p, 1)
        o = tl.dot(p.to(v.dtype.element_ty), tl.load(v + column[:, None] * kr + width[None, :], there, 0.0),
                   o * grow[:, None])  # fmt: skip
        top = new
    return o, top, total


@triton.jit
def slice_of(ends, z, rows, zstep, rstep, PACKED: tl.constexpr):
    """Where the sequence of batch z begins in a tensor, and how long it is."""
    begin = z.to(tl.int64) * zstep
    first = tl.zeros((), tl.int64)
    if PACKED:
        first = tl.load(ends + z).to(tl.int64)
        rows = (tl.load(ends + z + 1) - first).to(tl.int32)
        begin = first * rstep
    return begin, first, rows


@triton.jit
def attention_kernel(q, k, v, o, lse, ends_q, ends_k, heads, group, queries, keys, scale, qz, qh, qr, kz, kh, kr, lz, lh,
                     D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, CAUSAL: tl.constexpr, PACKED: tl.constexpr):  # fmt: skip
    z, head = tl.program_id(1) // heads, tl.program_id(1) % heads
    begin, first, queries = slice_of(ends_q, z, queries, qz, qr, PACKED)
    other, _, keys = slice_of(ends_k, z, keys, kz, kr, PACKED)
    # Of causal attention the long rows come first.
    block = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    if block * M < queries:
        begin += head.to(tl.int64) * qh
        other += (head // group).to(tl.int64) * kh
        i, j, width = block * M + tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
        rows = (i < queries)[:, None]
        at = begin + i.to(tl.int64)[:, None] * qr + width[None, :]
        mine = tl.load(q + at, rows, 0.0)
        sums, total = tl.zeros((M, D), tl.float32), tl.zeros((M,), tl.float32)
        top = tl.full((M,), -1e30, tl.float32)
        offset = keys - queries
        # Blocks that all rows see whole need no mask.
        end, whole = keys, keys // N * N
        if CAUSAL:
            end = tl.minimum(keys, tl.maximum(0, (block + 1) * M + offset))
            whole = tl.minimum(whole, tl.maximum(0, block * M + offset + 1) // N * N)
        base2 = scale * LOG2E
        sums, top, total = attention_steps(mine, k + other, v + other, sums, top, total, i, j, 0, whole, keys, offset, kr, width,
                                           base2, N, False, CAUSAL)  # fmt: skip
        sums, top, total = attention_steps(mine, k + other, v + other, sums, top, total, i, j, whole, end, keys, offset, kr, width,
                                           base2, N, True, CAUSAL)  # fmt: skip
        tl.store(o + at, (sums / tl.where(total > 0, total, 1.0)[:, None]).to(o.dtype.element_ty), rows)
        own = lse + z.to(tl.int64) * lz + head.to(tl.int64) * lh + first + i
        tl.store(own, tl.where(total > 0, (top + tl.log2(total)) / LOG2E, -float("inf")), i < queries)


@triton.jit
def delta_kernel(o, do, delta, rows, D: tl.constexpr, M: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    at, there = row[:, None] * D + tl.arange(0, D)[None, :], (row < rows)[:, None]
    product = tl.load(o + at, there, 0.0).to(tl.float32) * tl.load(do + at, there, 0.0).to(tl.float32)
    tl.store(delta + row, tl.sum(product, 1), row < rows)


@triton.jit
def query_steps(total, mine, slope, own, change, k, v, i, j, first, end, keys, offset, kr, width, base2, N: tl.constexpr,
                MASKED: tl.constexpr):  # fmt: skip
    for start in range(first, end, N):
        column = (start + j).to(tl.int64)
        at, there = column[:, None] * kr + width[None, :], (column < keys)[:, None]
        key = tl.load(k + at, there, 0.0)
        p = tl.exp2(tl.dot(mine, tl.trans(key)) * base2 - own[:, None])
        if MASKED:
            p = tl.where(column[None, :] <= i[:, None] + offset, p, 0.0)
        dp = tl.dot(slope, tl.trans(tl.load(v + at, there, 0.0)))
        # Keys that are not there are 0, and add nothing.
        total = tl.dot((p * (dp - change[:, None])).to(key.dtype), key, total)
    return total


@triton.jit
def query_gradients_kernel(q, k, v, do, lse, delta, dq, ends_q, ends_k, heads, group, queries, keys, scale, qz, qh, qr,
                           kz, kh, kr, lz, lh, dz, dh, dr, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
                           CAUSAL: tl.constexpr, PACKED: tl.constexpr):  # fmt: skip
    z, head = tl.program_id(1) // heads, tl.program_id(1) % heads
    begin, first, queries = slice_of(ends_q, z, queries, qz, qr, PACKED)
    other, _, keys = slice_of(ends_k, z, keys, kz, kr, PACKED)
    block = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    if block * M < queries:
        begin += head.to(tl.int64) * qh
        other += (head // group).to(tl.int64) * kh
        i, j, width = block * M + tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
        rows = i < queries
        at = begin + i.to(tl.int64)[:, None] * qr + width[None, :]
        mine, slope = tl.load(q + at, rows[:, None], 0.0), tl.load(do + at, rows[:, None], 0.0)
        own = tl.load(lse + z.to(tl.int64) * lz + head.to(tl.int64) * lh + first + i, rows, 0.0) * LOG2E
        change = tl.load(delta + z.to(tl.int64) * dz + head.to(tl.int64) * dh + (first + i) * dr, rows, 0.0)
        offset = keys - queries
        end, whole = keys, tl.cdiv(keys, N) * N
        if CAUSAL:
            end = tl.minimum(keys, tl.maximum(0, (block + 1) * M + offset))
            whole = tl.maximum(0, block * M + offset + 1) // N * N
        whole = tl.minimum(whole, end)
        base2 = scale * LOG2E
        total = tl.zeros((M, D), tl.float32)
        total = query_steps(total, mine, slope, own, change, k + other, v + other, i, j, 0, whole, keys, offset, kr, width,
                            base2, N, False)  # fmt: skip
        if CAUSAL:
            total = query_steps(total, mine, slope, own, change, k + other, v + other, i, j, whole, end, keys, offset, kr,
                                width, base2, N, True)  # fmt: skip
        tl.store(dq + at, (total * scale).to(dq.dtype.element_ty), rows[:, None])


@triton.jit
def key_steps(keys_total, values_total, key, value, q, do, lse, delta, i, j, first, end, queries, offset, qr, dr, width, base2,
              M: tl.constexpr, MASKED: tl.constexpr):  # fmt: skip
    for start in range(first, end, M):
        row = start + i
        there = row < queries
        at = row.to(tl.int64)[:, None] * qr + width[None, :]
        mine, slope = tl.load(q + at, there[:, None], 0.0), tl.load(do + at, there[:, None], 0.0)
        # A row that is not there has no weights.
        own = tl.load(lse + row, there, float("inf")) * LOG2E
        p = tl.exp2(tl.dot(key, tl.trans(mine)) * base2 - own[None, :])
        if MASKED:
            p = tl.where(j[:, None] <= row[None, :] + offset, p, 0.0)
        values_total = tl.dot(p.to(slope.dtype), slope, values_total)
        dp = tl.dot(value, tl.trans(slope))
        change = tl.load(delta + row * dr, there, 0.0)
        keys_total = tl.dot((p * (dp - change[None, :])).to(mine.dtype), mine, keys_total)
    return keys_total, values_total


@triton.jit
def key_gradients_kernel(q, k, v, do, lse, delta, dk, dv, ends_q, ends_k, heads, group, queries, keys, scale, qz, qh, qr,
                         kz, kh, kr, lz, lh, dz, dh, dr, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
                         CAUSAL: tl.constexpr, PACKED: tl.constexpr):  # fmt: skip
    z, head = tl.program_id(1) // heads, tl.program_id(1) % heads  # of keys
    begin, first, queries = slice_of(ends_q, z, queries, qz, qr, PACKED)
    other, _, keys = slice_of(ends_k, z, keys, kz, kr, PACKED)
    block = tl.program_id(0)
    if block * N < keys:
        i, j, width = tl.arange(0, M), block * N + tl.arange(0, N), tl.arange(0, D)
        at = other + head.to(tl.int64) * kh + j.to(tl.int64)[:, None] * kr + width[None, :]
        there = (j < keys)[:, None]
        key, value = tl.load(k + at, there, 0.0), tl.load(v + at, there, 0.0)
        offset = keys - queries
        # The first row that sees the first key, and the first that sees all of them.
        start, whole = 0, 0
        if CAUSAL:
            start = tl.maximum(0, block * N - offset) // M * M
            whole = tl.maximum(0, tl.cdiv((block + 1) * N - 1 - offset, M) * M)
        whole = tl.maximum(start, tl.minimum(whole, tl.cdiv(queries, M) * M))
        base2 = scale * LOG2E
        keys_total, values_total = tl.zeros((N, D), tl.float32), tl.zeros((N, D), tl.float32)
        for mine in range(head * group, (head + 1) * group):
            own = begin + tl.cast(mine, tl.int64) * qh
            logs = lse + z.to(tl.int64) * lz + tl.cast(mine, tl.int64) * lh + first
            changes = delta + z.to(tl.int64) * dz + tl.cast(mine, tl.int64) * dh + first * dr
            if CAUSAL:
                keys_total, values_total = key_steps(keys_total, values_total, key, value, q + own, do + own, logs, changes, i, j,
                                                     start, whole, queries, offset, qr, dr, width, base2, M, True)  # fmt: skip
            keys_total, values_total = key_steps(keys_total, values_total, key, value, q + own, do + own, logs, changes, i, j,
                                                 whole, queries, queries, offset, qr, dr, width, base2, M, False)  # fmt: skip
        tl.store(dk + at, (keys_total * scale).to(dk.dtype.element_ty), there)
        tl.store(dv + at, values_total.to(dv.dtype.element_ty), there)


class Attention:
    """The launches for one case. Heads are [B, H, S, D], or [T, H, D] where sequences are packed."""

    def __init__(self, c, q, k, v):
        plain = not c.given("bias", "mask", "sinks") and c.choice("layout", "bhsd") == "bhsd" and c.number("softcap") == c.number("dropout") == 0
        c.require(plain and c.integer("window_left", -1) < 0 and c.integer("window_right", -1) < 0, "only plain and causal attention were written for it")
        c.require(q.dtype in (torch.float16, torch.bfloat16), "only 16-bit operands were written for it")
        self.q, self.k, self.v, self.causal, self.packed = q, k, v, c.flag("causal"), "cu_seqlens_q" in c
        self.width = q.shape[-1]
        require_power_of_two(c, self.width)
        c.require(v.shape[-1] == self.width, "values as wide as keys only")
        self.o = torch.empty_like(q)
        self.ends = [c["cu_seqlens_" + name] if self.packed else q for name in "qk"]
        if self.packed:
            self.batches, self.heads, self.kv_heads = self.ends[0].numel() - 1, q.shape[1], k.shape[1]
            self.queries, self.keys = (int(end.diff().max()) for end in self.ends)
            self.steps = [0, q.stride(1), q.stride(0), 0, k.stride(1), k.stride(0), 0, q.shape[0]]
            self.delta_steps = [0, 1, self.heads]  # delta is [T, H], as q
            self.lse = torch.empty((self.heads, q.shape[0]), device=DEVICE, dtype=torch.float32)
        else:
            self.batches, self.heads, self.queries = q.shape[:3]
            self.kv_heads, self.keys = k.shape[1:3]
            self.steps = [*q.stride()[:3], *k.stride()[:3], self.heads * self.queries, self.queries]
            self.delta_steps = [self.heads * self.queries, self.queries, 1]
            self.lse = torch.empty(q.shape[:3], device=DEVICE, dtype=torch.float32)
        self.scale = c.number("scale", 1 / math.sqrt(self.width))

    def shape(self):
        return [*self.ends, self.heads, self.heads // self.kv_heads, self.queries, self.keys, self.scale, *self.steps]

    def forward(self, M, N, warps, stages):
        attention_kernel[(triton.cdiv(self.queries, M), self.batches * self.heads)](
            self.q, self.k, self.v, self.o, self.lse, *self.shape(), D=self.width, M=M, N=N, CAUSAL=self.causal, PACKED=self.packed,
            num_warps=warps, num_stages=stages)  # fmt: skip

    def prepare_gradients(self, do, *choice):
        """The forward pass, whose results the gradients need, and where these go."""
        self.forward(*choice)
        self.do, self.rows = do, math.prod(self.q.shape[:-1])
        self.delta = torch.empty(self.rows, device=DEVICE, dtype=torch.float32)
        self.gradients = tuple(torch.empty_like(x) for x in (self.q, self.k, self.v))

    def backward(self, m, n, wide, warps, stages):
        """Tiles of m queries by n keys; the query gradients' are the other way round if they are `wide`."""
        dq, dk, dv = self.gradients
        delta_kernel[(triton.cdiv(self.rows, 64),)](self.o, self.do, self.delta, self.rows, D=self.width, M=64)
        common = dict(D=self.width, CAUSAL=self.causal, PACKED=self.packed, num_warps=warps, num_stages=stages)
        tensors = self.q, self.k, self.v, self.do, self.lse, self.delta
        key_gradients_kernel[(triton.cdiv(self.keys, n), self.batches * self.kv_heads)](
            *tensors, dk, dv, *self.ends, self.kv_heads, *self.shape()[3:], *self.delta_steps, M=m, N=n, **common)  # fmt: skip
        m, n = (n, m) if wide else (m, n)
        query_gradients_kernel[(triton.cdiv(self.queries, m), self.batches * self.heads)](
            *tensors, dq, *self.shape(), *self.delta_steps, M=m, N=n, **common)  # fmt: skip


FORWARD = ((128, 128, 8, 2), (128, 64, 8, 3), (128, 64, 4, 3), (64, 64, 4, 3))
BACKWARD = ((64, 128, True, 8, 2), (32, 128, True, 4, 3), (64, 64, False, 4, 2))


@peer(TRITON, "attention", "attention_varlen", "ring_attention")
def _(c):
    attention = Attention(c, c["q"], c["k"], c["v"])
    return works(attention.forward, attention.o, *FORWARD)


@peer(TRITON, "attention_backward", "attention_varlen_backward", "ring_attention_backward")
def _(c):
    attention = Attention(c, c["q"], c["k"], c["v"])
    attention.prepare_gradients(c["do"], 64, 64, 4, 2)
    return works(attention.backward, attention.gradients, *BACKWARD)
