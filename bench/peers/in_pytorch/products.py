# Products of matrices, and convolution.
import torch
import torch.nn.functional as F

from case import PYTORCH, peer

from .elements import activation_of


@peer(PYTORCH, "matmul", "batched_matmul")
def _(c):
    for name in ("a", "b"):
        c.require(c[name].dtype in (torch.float16, torch.bfloat16, torch.float32), "8-bit operands were not asked of it")
    alpha, beta, act = c.number("alpha", 1), c.number("beta", 1), activation_of(c.choice("activation", "none"))
    trans_a, trans_b = c.flag("trans_a"), c.flag("trans_b")
    extras = c.given("bias", "residual", "row_scale", "column_scale")

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


@peer(PYTORCH, "grouped_matmul")
def _(c):
    sizes, trans = c["group_sizes"].long().tolist(), c.flag("trans_rhs")

    def product(lhs, rhs):
        return torch.cat([part @ (w.mT if trans else w) for part, w in zip(torch.split(lhs, sizes), rhs)])

    return product, ["lhs", "rhs"]


@peer(PYTORCH, "grouped_matmul_drhs")
def _(c):
    sizes, trans = c["group_sizes"].long().tolist(), c.flag("trans_rhs")

    def product(lhs, dc):
        pairs = zip(torch.split(lhs, sizes), torch.split(dc, sizes))
        return torch.stack([d.mT @ part if trans else part.mT @ d for part, d in pairs])

    return product, ["lhs", "dc"]


@peer(PYTORCH, "quantized_matmul")
def _(c):
    group, act, packed = c.integer("group", 128), activation_of(c.choice("activation", "none")), c["w"].dtype == torch.uint8
    extras = c.given("zeros", "bias")

    def product(a, w, scales, *rest):
        given = dict(zip(extras, rest))
        codes = torch.stack([w & 15, w >> 4], -1).flatten(-2) if packed else w
        spread = lambda x: x.repeat_interleave(group, 1)[:, : codes.shape[1]]  # noqa: E731
        zero = spread(given["zeros"]) if "zeros" in given else 8 if packed else 0
        y = a @ ((codes.to(a.dtype) - zero) * spread(scales)).mT
        return act(y + given["bias"] if "bias" in given else y)

    return product, ["a", "w", "scales", *extras]


def scaled_by_blocks(c, act, out):
    """cuBLAS's product with a scale for each 128 elements of a and each 128 by 128 of b, where there is one."""
    if (c.integer("block_k", 128), c.integer("block_n", 128)) != (128, 128) or c["a"].dtype != torch.float8_e4m3fn:
        return None
    kinds = F.ScalingType
    # It takes operands and scales in one order only; whoever stores them for it does so beforehand.
    b = c["b"] if c.flag("trans_b") else c["b"].mT.contiguous()
    b_scales = c["b_scales"] if c.flag("trans_b") else c["b_scales"].mT.contiguous()
    a_scales = c["a_scales"].mT.contiguous()
    c.inputs.update(b=b, b_scales=b_scales, a_scales=a_scales)

    def product(a, b, a_scales, b_scales, bias=None):
        y = F.scaled_mm(a, b.mT, a_scales.mT, kinds.BlockWise1x128, b_scales.mT, kinds.BlockWise128x128, output_dtype=out)
        return act(y if bias is None else y + bias)

    return product


@peer(PYTORCH, "scaled_matmul")
def _(c):
    act, trans = activation_of(c.choice("activation", "none")), c.flag("trans_b")
    out = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[c.choice("out", "bf16")]
    depth, width, names = c.integer("block_k", 128), c.integer("block_n", 128), ["a", "b", "a_scales", "b_scales", *c.given("bias")]
    kept = dict(c.inputs)
    if direct := scaled_by_blocks(c, act, out):
        try:
            direct(*(c[name] for name in names))
            c.remark("operands and scales lie beforehand as cuBLAS wants them")
            return direct, names
        except (RuntimeError, ValueError, NotImplementedError):  # not on this chip, or not of these extents
            c.inputs = kept
    c.remark("multiplies in bf16 after scaling: cuBLAS has no such product here")

    def product(a, b, a_scales, b_scales, bias=None):
        b, b_scales = (b.mT, b_scales.mT) if trans else (b, b_scales)
        rows = a_scales.repeat_interleave(depth, 1)[:, : a.shape[1]]
        blocks = b_scales.repeat_interleave(depth, 0)[: b.shape[0]].repeat_interleave(width, 1)[:, : b.shape[1]]
        y = (a.float() * rows).bfloat16() @ (b.float() * blocks).bfloat16()
        return act(y if bias is None else y + bias).to(out)

    return product, names


@peer(PYTORCH, "conv2d")
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

    return convolve, ["x", "w", *c.given("b")]
