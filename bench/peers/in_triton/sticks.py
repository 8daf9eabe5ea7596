# Stick-breaking attention in Triton, forward and backward.
import math

import torch
import triton
import triton.language as tl

from case import DEVICE, TRITON, peer

from .common import require_power_of_two, works


@triton.jit
def broken(q, k, seen, scale, later):
    """The scores of a block, how much each key shortens the stick, and the keys' weights."""
    s = tl.dot(q, tl.trans(k)) * scale
    tail = tl.log(1 + tl.exp(-tl.abs(s)))
    shorter = tl.where(seen, tl.maximum(s, 0.0) + tail, 0.0)
    behind = tl.cumsum(shorter, 1, reverse=True) - shorter
    weights = tl.where(seen, tl.exp(tl.minimum(s, 0.0) - tail - later[:, None] - behind), 0.0)
    return s, shorter, weights


@triton.jit
def stick_kernel(q, k, v, o, rem, total, heads, group, queries, keys, scale, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    block, head = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1).to(tl.int64)
    other = (head // heads * (heads // group) + head % heads // group) * keys * D
    i, width = block * M + tl.arange(0, M), tl.arange(0, D)
    rows, offset = i < queries, keys - queries
    at = (head * queries + i)[:, None] * D + width[None, :]
    mine = tl.load(q + at, rows[:, None], 0.0)
    sums, later = tl.zeros((M, D), tl.float32), tl.zeros((M,), tl.float32)
    blocks = tl.cdiv(tl.minimum(keys, tl.maximum(0, (block + 1) * M - 1 + offset)), N)
    for number in range(blocks):
        j = (blocks - 1 - number) * N + tl.arange(0, N)
        place, there = other + j[:, None] * D + width[None, :], (j < keys)[:, None]
        seen = (j[None, :] < i[:, None] + offset) & (j < keys)[None, :]
        _, shorter, weights = broken(mine, tl.load(k + place, there, 0.0), seen, scale, later)
        sums = tl.dot(weights.to(v.dtype.element_ty), tl.load(v + place, there, 0.0), sums)
        later += tl.sum(shorter, 1)
    tl.store(o + at, sums.to(o.dtype.element_ty), rows[:, None])
    tl.store(rem + head * queries + i, tl.exp(-later), rows)
    tl.store(total + head * queries + i, later, rows)


@triton.jit
def stick_slopes(s, seen, changes, earlier):
    """A score shortens the sticks of its key and of all earlier ones."""
    return tl.where(seen, changes - tl.sigmoid(s) * (earlier[:, None] + tl.cumsum(changes, 1)), 0.0)


@triton.jit
def stick_queries_kernel(q, k, v, do, total, laters, earliers, dq, heads, group, queries, keys, scale, D: tl.constexpr,
                         M: tl.constexpr, N: tl.constexpr):  # fmt: skip
    # Leaves for each row and block of keys what the later ones shorten the stick by, and what the earlier ones change.
    block, head = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1).to(tl.int64)
    other = (head // heads * (heads // group) + head % heads // group) * keys * D
    i, width = block * M + tl.arange(0, M), tl.arange(0, D)
    rows, offset, all_blocks = i < queries, keys - queries, tl.cdiv(keys, N)
    at = (head * queries + i)[:, None] * D + width[None, :]
    mine, slope = tl.load(q + at, rows[:, None], 0.0), tl.load(do + at, rows[:, None], 0.0)
    later, earlier = tl.load(total + head * queries + i, rows, 0.0), tl.zeros((M,), tl.float32)
    sums = tl.zeros((M, D), tl.float32)
    for number in range(tl.cdiv(tl.minimum(keys, tl.maximum(0, (block + 1) * M - 1 + offset)), N)):
        j = number * N + tl.arange(0, N)
        place, there = other + j[:, None] * D + width[None, :], (j < keys)[:, None]
        seen = (j[None, :] < i[:, None] + offset) & (j < keys)[None, :]
        key = tl.load(k + place, there, 0.0)
        s = tl.dot(mine, tl.trans(key)) * scale
        later -= tl.sum(tl.where(seen, tl.maximum(s, 0.0) + tl.log(1 + tl.exp(-tl.abs(s))), 0.0), 1)
        _, _, weights = broken(mine, key, seen, scale, later)
        changes = weights * tl.dot(slope, tl.trans(tl.load(v + place, there, 0.0)))
        kept = (head * all_blocks + number) * queries + i
        tl.store(laters + kept, later, rows)
        tl.store(earliers + kept, earlier, rows)
        sums = tl.dot(stick_slopes(s, seen, changes, earlier).to(key.dtype), key, sums)
        earlier += tl.sum(changes, 1)
    tl.store(dq + at, (sums * scale).to(dq.dtype.element_ty), rows[:, None])


@triton.jit
def stick_keys_kernel(q, k, v, do, laters, earliers, dk, dv, heads, group, queries, keys, scale, D: tl.constexpr,
                      M: tl.constexpr, N: tl.constexpr):  # fmt: skip
    number, head = tl.program_id(0), tl.program_id(1).to(tl.int64)  # of keys
    j, width = number * N + tl.arange(0, N), tl.arange(0, D)
    place, there = (head * keys + j)[:, None] * D + width[None, :], (j < keys)[:, None]
    key, value = tl.load(k + place, there, 0.0), tl.load(v + place, there, 0.0)
    offset, shared = keys - queries, heads // group
    keys_total, values_total = tl.zeros((N, D), tl.float32), tl.zeros((N, D), tl.float32)
    for member in range(group):
        mine = head // shared * heads + head % shared * group + member
        kept = (mine * tl.cdiv(keys, N) + number) * queries
        for start in range(tl.maximum(0, number * N - offset + 1) // M * M, queries, M):
            i = start + tl.arange(0, M)
            rows, at = i < queries, (mine * queries + i)[:, None] * D + width[None, :]
            query, slope = tl.load(q + at, rows[:, None], 0.0), tl.load(do + at, rows[:, None], 0.0)
            seen = (j[None, :] < i[:, None] + offset) & (j < keys)[None, :] & rows[:, None]
            # Rows that see nothing of this block have left nothing of it.
            some = rows & (number * N < i + offset)
            s, _, weights = broken(query, key, seen, scale, tl.load(laters + kept + i, some, 0.0))
            values_total = tl.dot(tl.trans(weights.to(slope.dtype)), slope, values_total)
            changes = weights * tl.dot(slope, tl.trans(value))
            slopes = stick_slopes(s, seen, changes, tl.load(earliers + kept + i, some, 0.0))
            keys_total = tl.dot(tl.trans(slopes.to(query.dtype)), query, keys_total)
    tl.store(dk + place, (keys_total * scale).to(dk.dtype.element_ty), there)
    tl.store(dv + place, values_total.to(dv.dtype.element_ty), there)


class Sticks:
    def __init__(self, c):
        self.q, self.k, self.v = (c[name] for name in "qkv")
        c.require(c.choice("layout", "bhsd") == "bhsd", "other orders of axes were not written for it")
        c.require(self.q.dtype in (torch.float16, torch.bfloat16), "only 16-bit operands were written for it")
        (self.batches, self.heads, self.queries, self.width), (self.kv_heads, self.keys) = self.q.shape, self.k.shape[1:3]
        require_power_of_two(c, self.width)
        self.o = torch.empty_like(self.q)
        self.rem, self.total = (torch.empty(self.q.shape[:3], device=DEVICE, dtype=torch.float32) for _ in range(2))
        scale = c.number("scale", 1 / math.sqrt(self.width))
        self.numbers = [self.heads, self.heads // self.kv_heads, self.queries, self.keys, scale]

    def forward(self, m, n, warps, stages):
        stick_kernel[(triton.cdiv(self.queries, m), self.batches * self.heads)](
            self.q, self.k, self.v, self.o, self.rem, self.total, *self.numbers, D=self.width, M=m, N=n, num_warps=warps, num_stages=stages)  # fmt: skip


@peer(TRITON, "stick_breaking_attention")
def _(c):
    sticks = Sticks(c)
    return works(sticks.forward, (sticks.o, sticks.rem), (64, 64, 4, 2), (128, 64, 8, 2), (64, 32, 4, 2))


@peer(TRITON, "stick_breaking_attention_backward")
def _(c):
    c.require("drem" not in c, "the remainder's gradient was not written for it")
    sticks, do = Sticks(c), c["do"]
    sticks.forward(64, 64, 4, 2)
    gradients = tuple(torch.empty_like(x) for x in (sticks.q, sticks.k, sticks.v))

    def with_tiles(m, n, warps, stages):
        shape = (sticks.batches * sticks.heads, triton.cdiv(sticks.keys, n), sticks.queries)
        kept = [torch.empty(shape, device=DEVICE, dtype=torch.float32) for _ in range(2)]
        tensors, common = (sticks.q, sticks.k, sticks.v, do), dict(D=sticks.width, M=m, N=n, num_warps=warps, num_stages=stages)

        def work():
            stick_queries_kernel[(triton.cdiv(sticks.queries, m), sticks.batches * sticks.heads)](
                *tensors, sticks.total, *kept, gradients[0], *sticks.numbers, **common)  # fmt: skip
            stick_keys_kernel[(triton.cdiv(sticks.keys, n), sticks.batches * sticks.kv_heads)](
                *tensors, *kept, *gradients[1:], *sticks.numbers, **common)  # fmt: skip
            return gradients

        return work

    return [with_tiles(64, 64, 4, 2), with_tiles(64, 64, 8, 2), with_tiles(64, 32, 4, 2)]
