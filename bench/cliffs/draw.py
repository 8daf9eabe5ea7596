# Calls as models make them, drawn from a seed: extents and options that no table names.
import random

# Of models' hidden layers, heads, experts and vocabularies.
WIDTHS = (64, 80, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1152, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 6656, 7168, 8192,
          10240, 11008, 13824, 14336, 16384, 22016, 28672)  # fmt: skip
HEADS = (64, 64, 80, 96, 128, 128, 128, 192, 256)


class Draw:
    """A source of calls of one family; the same for the same seed."""

    def __init__(self, seed, family):
        self.random = random.Random(f"{seed} {family}")

    def choice(self, *values):
        return self.random.choice(values)

    def often(self, share):
        return self.random.random() < share

    def width(self, least=64, most=28672):
        width = self.choice(*(w for w in WIDTHS if least <= w <= most))
        return width + self.random.randint(-7, 7) if self.often(0.1) else width

    def count(self, least, most):
        """As many of the small numbers as of the large ones, every other a power of two."""
        if self.often(0.5):
            powers = [1 << i for i in range(31) if least <= 1 << i <= most]
            if powers:
                return self.choice(*powers)
        return round(least * (most / least) ** self.random.random())


def line(kernel, dtype, options=(), inputs=(), **extents):
    words = [kernel, ",".join(f"{axis.replace('rows', '...')}={extent}" for axis, extent in extents.items()), f"dtype {dtype}"]
    words += [f"with {','.join(inputs)}"] if inputs else []
    words += [f"opt {' '.join(options)}"] if options else []
    return " ".join(words)


def products(d):
    while True:
        kernel = d.choice("matmul", "matmul", "matmul", "batched_matmul", "scaled_matmul")
        m, n, k = d.choice(d.count(1, 65536), d.width()), d.width(), d.width()
        batches = d.count(2, 128) if kernel == "batched_matmul" else 1
        if kernel == "batched_matmul":
            m, n, k = min(m, 4096), min(n, 4096), min(k, 4096)
        if not 1e8 < 2.0 * m * n * k * batches < 4e12 or batches * max(m * n, m * k, n * k) > 1 << 29:
            continue
        options = [f"trans_b={d.choice('true', 'false')}"]
        if kernel == "scaled_matmul":
            return line(kernel, "f8e4m3", options, M=m, N=n, K=(k + 15) // 16 * 16)
        dtype = d.choice("f16", "bf16", "bf16", "f32")
        return line(kernel, dtype, options, **({"B": batches} if batches > 1 else {}), M=m, N=n, K=k)


def attention(d, kernel="attention"):
    while True:
        heads = d.choice(4, 8, 12, 16, 20, 32, 40, 64)
        group = d.choice(1, 1, 2, 4, 8)
        width, batches = d.choice(*HEADS), d.count(1, 64)
        queries = d.choice(d.count(128, 32768), d.choice(197, 257, 577, 1500, 4250))
        causal = d.often(0.5)
        few = kernel == "attention" and d.often(0.2)
        keys = d.count(1024, 32768) if few else queries
        if few:
            queries = d.count(1, 64)
        work = 4.0 * batches * heads * queries * keys * width
        if heads % group or not 1e8 < work < 2e12 or batches * heads * max(queries, keys) * width > 1 << 28:
            continue
        return line(kernel, d.choice("f16", "bf16"), [f"causal={str(causal and not few).lower()}"], B=batches, Hq=heads,
                    Hkv=heads // group, Sq=queries, Sk=keys, D=width, Dv=width)  # fmt: skip


def attention_backward(d):
    return attention(d, "attention_backward")


def rows(d):
    while True:
        kernel = d.choice("softmax", "softmax_backward", "log_softmax", "layer_norm", "layer_norm_backward", "rms_norm", "rms_norm_backward",
                          "cross_entropy", "cross_entropy_backward", "swiglu", "rope", "group_norm")  # fmt: skip
        n, many, dtype = d.width(), d.count(1, 100000), d.choice("f16", "bf16", "f32")
        if not 1 << 16 < n * many < 1 << 28:
            continue
        if kernel == "rope":
            width = d.choice(*HEADS)
            return line(kernel, dtype, B=d.choice(1, 2, 8), H=d.choice(8, 16, 32, 40), S=d.count(64, 16384), D=width)
        if kernel == "group_norm":
            return line(kernel, dtype, **{"B": d.choice(1, 2, 4, 16), "C": d.choice(64, 320, 640, 1280), "rows": d.choice(256, 1024, 4096)})
        if kernel == "swiglu":
            return line(kernel, dtype, rows=many * n)
        inputs = {"layer_norm": ("w", "b"), "rms_norm": ("w",)}.get(kernel, ())
        axis = "V" if kernel.startswith("cross_entropy") else "N"
        return line(kernel, dtype, inputs=inputs, **{"rows": many, axis: n})


def collections(d):
    while True:
        kernel = d.choice("sort", "topk", "reduce", "reduce", "scan")
        n, many = d.choice(d.count(64, 1 << 22), d.width()), d.count(1, 65536)
        if not 1 << 14 < n * many < 1 << (26 if kernel == "sort" else 28):
            continue
        options = {"topk": [f"k={d.choice(1, 8, 50, 256)}"], "reduce": [f"op={d.choice('sum', 'mean', 'max', 'argmax')}"]}.get(kernel, [])
        if kernel == "topk" and n < 512:
            continue
        return line(kernel, d.choice("f32", "f16", "bf16"), options, **{"rows": many, "N": n})


def convolutions(d):
    while True:
        channels, filters = d.choice(3, 16, 32, 64, 128, 192, 256, 320, 512, 640, 960, 1280), d.choice(32, 64, 96, 128, 256, 320, 512, 640, 1280)
        size, taps, images = d.choice(7, 14, 28, 32, 56, 64, 80, 112, 128), d.choice(1, 3, 3, 5, 7), d.choice(1, 2, 4, 8, 32, 64)
        stride = d.choice(1, 1, 1, 2)
        work = 2.0 * images * channels * filters * (size / stride) ** 2 * taps**2
        if not 1e8 < work < 1e12 or images * max(channels, filters) * size * size > 1 << 28:
            continue
        options = ["layout=nhwc", f"stride_h={stride}", f"stride_w={stride}", f"pad_h={taps // 2}", f"pad_w={taps // 2}"]
        return line("conv2d", d.choice("f16", "bf16"), options, N=images, H=size, W=size, C=channels, K=filters, Cg=channels, R=taps, S=taps)


FAMILIES = {f.__name__: f for f in (products, attention, attention_backward, rows, collections, convolutions)}


def draw(seed, family, count):
    source = Draw(seed, family)
    return [FAMILIES[family](source) for _ in range(count)]
