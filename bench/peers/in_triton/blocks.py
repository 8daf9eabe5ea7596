# Attention over the blocks of a mask in Triton: a program goes through all of them, and skips those that are absent.
import torch
import triton
import triton.language as tl

from case import TRITON, peer

from .attention import LOG2E, Attention, attention_steps, delta_kernel, key_steps, query_steps
from .common import works


@triton.jit
def mask_of(mask, z, head, mz, mh):
    return mask + z.to(tl.int64) * mz + tl.cast(head, tl.int64) * mh


@triton.jit
def blocks_kernel(q, k, v, o, lse, mask, heads, group, queries, keys, scale, qz, qh, qr, kz, kh, kr, lz, lh, mz, mh, mr, mc,
                  D: tl.constexpr, M: tl.constexpr, N: tl.constexpr, TAIL: tl.constexpr):  # fmt: skip
    z, head, block = tl.program_id(1) // heads, tl.program_id(1) % heads, tl.program_id(0)
    begin = z.to(tl.int64) * qz + head.to(tl.int64) * qh
    other = z.to(tl.int64) * kz + (head // group).to(tl.int64) * kh
    i, j, width = block * M + tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    at, rows = begin + i.to(tl.int64)[:, None] * qr + width[None, :], (i < queries)[:, None]
    mine = tl.load(q + at, rows, 0.0)
    sums, total = tl.zeros((M, D), tl.float32), tl.zeros((M,), tl.float32)
    top = tl.full((M,), -1e30, tl.float32)
    present = mask_of(mask, z, head, mz, mh) + block * mr
    for number in range(tl.cdiv(keys, N)):
        if tl.load(present + number * mc) != 0:
            sums, top, total = attention_steps(mine, k + other, v + other, sums, top, total, i, j, number * N, number * N + 1,
                                               keys, 0, kr, width, scale * LOG2E, N, TAIL, False)  # fmt: skip
    tl.store(o + at, (sums / tl.where(total > 0, total, 1.0)[:, None]).to(o.dtype.element_ty), rows)
    own = lse + z.to(tl.int64) * lz + head.to(tl.int64) * lh + i
    tl.store(own, tl.where(total > 0, (top + tl.log2(total)) / LOG2E, -float("inf")), i < queries)


@triton.jit
def query_blocks_kernel(q, k, v, do, lse, delta, dq, mask, heads, group, queries, keys, scale, qz, qh, qr, kz, kh, kr, lz, lh,
                        mz, mh, mr, mc, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):  # fmt: skip
    z, head, block = tl.program_id(1) // heads, tl.program_id(1) % heads, tl.program_id(0)
    begin = z.to(tl.int64) * qz + head.to(tl.int64) * qh
    other = z.to(tl.int64) * kz + (head // group).to(tl.int64) * kh
    i, j, width = block * M + tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    at, rows = begin + i.to(tl.int64)[:, None] * qr + width[None, :], i < queries
    mine, slope = tl.load(q + at, rows[:, None], 0.0), tl.load(do + at, rows[:, None], 0.0)
    place = z.to(tl.int64) * lz + head.to(tl.int64) * lh + i
    own, change = tl.load(lse + place, rows, 0.0) * LOG2E, tl.load(delta + place, rows, 0.0)
    total = tl.zeros((M, D), tl.float32)
    present = mask_of(mask, z, head, mz, mh) + block * mr
    for number in range(tl.cdiv(keys, N)):
        if tl.load(present + number * mc) != 0:
            total = query_steps(total, mine, slope, own, change, k + other, v + other, i, j, number * N, number * N + 1, keys, 0,
                                kr, width, scale * LOG2E, N, False)  # fmt: skip
    tl.store(dq + at, (total * scale).to(dq.dtype.element_ty), rows[:, None])


@triton.jit
def key_blocks_kernel(q, k, v, do, lse, delta, dk, dv, mask, heads, group, queries, keys, scale, qz, qh, qr, kz, kh, kr, lz, lh,
                      mz, mh, mr, mc, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):  # fmt: skip
    z, head, block = tl.program_id(1) // heads, tl.program_id(1) % heads, tl.program_id(0)  # heads of keys
    i, j, width = tl.arange(0, M), block * N + tl.arange(0, N), tl.arange(0, D)
    at = z.to(tl.int64) * kz + head.to(tl.int64) * kh + j.to(tl.int64)[:, None] * kr + width[None, :]
    there = (j < keys)[:, None]
    key, value = tl.load(k + at, there, 0.0), tl.load(v + at, there, 0.0)
    keys_total, values_total = tl.zeros((N, D), tl.float32), tl.zeros((N, D), tl.float32)
    for mine in range(head * group, (head + 1) * group):
        own = z.to(tl.int64) * qz + tl.cast(mine, tl.int64) * qh
        rows = z.to(tl.int64) * lz + tl.cast(mine, tl.int64) * lh
        present = mask_of(mask, z, mine, mz, mh) + block * mc
        for number in range(tl.cdiv(queries, M)):
            if tl.load(present + number * mr) != 0:
                keys_total, values_total = key_steps(keys_total, values_total, key, value, q + own, do + own, lse + rows,
                                                     delta + rows, i, j, number * M, number * M + 1, queries, 0, qr, 1, width,
                                                     scale * LOG2E, M, False)  # fmt: skip
    tl.store(dk + at, (keys_total * scale).to(dk.dtype.element_ty), there)
    tl.store(dv + at, values_total.to(dv.dtype.element_ty), there)


class Blocks(Attention):
    def __init__(self, c):
        c.require(not c.flag("causal"), "only the mask was written for it")
        mask = c.inputs.pop("block_mask")
        super().__init__(c, c["q"], c["k"], c["v"])
        self.m, self.n = c.integer("block_q", 64), c.integer("block_k", 64)
        c.require(all(size & (size - 1) == 0 for size in (self.m, self.n)), "blocks of a power of two only")
        self.mask = mask.expand(self.batches, self.heads, -1, -1).to(torch.uint8)
        self.mask_steps = [0 if mask.shape[i] == 1 and i < 2 else self.mask.stride(i) for i in range(4)]

    def numbers(self):
        return [*self.shape()[3:], *self.mask_steps]

    def forward(self, warps, stages):
        blocks_kernel[(triton.cdiv(self.queries, self.m), self.batches * self.heads)](
            self.q, self.k, self.v, self.o, self.lse, self.mask, self.heads, *self.numbers(), D=self.width, M=self.m, N=self.n,
            TAIL=self.keys % self.n != 0, num_warps=warps, num_stages=stages)  # fmt: skip

    def backward(self, warps, stages):
        dq, dk, dv = self.gradients
        delta_kernel[(triton.cdiv(self.rows, 64),)](self.o, self.do, self.delta, self.rows, D=self.width, M=64)
        tensors = self.q, self.k, self.v, self.do, self.lse, self.delta
        common = dict(D=self.width, M=self.m, N=self.n, num_warps=warps, num_stages=stages)
        query_blocks_kernel[(triton.cdiv(self.queries, self.m), self.batches * self.heads)](
            *tensors, dq, self.mask, self.heads, *self.numbers(), **common)  # fmt: skip
        key_blocks_kernel[(triton.cdiv(self.keys, self.n), self.batches * self.kv_heads)](
            *tensors, dk, dv, self.mask, self.kv_heads, *self.numbers(), **common)  # fmt: skip


@peer(TRITON, "block_sparse_attention")
def _(c):
    blocks = Blocks(c)
    return works(blocks.forward, blocks.o, (4, 2), (4, 3), (8, 2))


@peer(TRITON, "block_sparse_attention_backward")
def _(c):
    blocks = Blocks(c)
    blocks.prepare_gradients(c["do"], 4, 2)
    return works(blocks.backward, blocks.gradients, (4, 2), (4, 3), (8, 2))
