# What a call from Python costs on the host, beside torch's: the best of eleven rounds, in microseconds. Needs torch with a GPU and the package sectile.
# Few calls a round, so that the driver's queue does not fill.
import sys
import time

import sectile
import torch

F = torch.nn.functional


class Around(torch.autograd.Function):
    """What torch itself adds to a function of Python that it records."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y


def cases(device):
    """(what, torch's call, Sectile's call); None of what there is not."""
    x, y, z = (torch.randn(4096, device=device) for _ in range(3))
    m, w, b = torch.randn(64, 64, device=device), torch.ones(64, device=device), torch.zeros(64, device=device)
    q = torch.randn(1, 2, 64, 64, device=device, dtype=torch.float16)
    g, gw, gq = (tensor.clone().requires_grad_() for tensor in (m, w, q))

    def there_and_back(function):
        function(g).backward(m)
        g.grad = None

    return [
        ("add, prepared", None, sectile.prepare(sectile.vector_add, x, y)),
        ("add, into a given tensor", lambda: torch.add(x, y, out=z), lambda: sectile.vector_add(x, y, out=z)),
        ("add", lambda: torch.add(x, y), lambda: sectile.vector_add(x, y)),
        ("softmax", lambda: torch.softmax(m, -1), lambda: sectile.softmax(m)),
        ("softmax with a gradient", lambda: torch.softmax(g, -1), lambda: sectile.softmax(g)),
        ("torch's softmax in a torch.autograd.Function", lambda: Around.apply(g), None),
        ("softmax, forward and backward", lambda: there_and_back(lambda x: torch.softmax(x, -1)), lambda: there_and_back(sectile.softmax)),
        ("matmul", lambda: torch.matmul(m, m), lambda: sectile.matmul(m, m)),
        ("RMS norm", lambda: F.rms_norm(m, (64,), w, 1e-6), lambda: sectile.rms_norm(m, w)),
        ("RMS norm with a gradient", lambda: F.rms_norm(g, (64,), gw, 1e-6), lambda: sectile.rms_norm(g, gw)),
        ("layer norm", lambda: F.layer_norm(m, (64,), w, b), lambda: sectile.layer_norm(m, w, b)),
        ("attention", lambda: F.scaled_dot_product_attention(q, q, q), lambda: sectile.attention(q, q, q)),
        ("attention with a gradient", lambda: F.scaled_dot_product_attention(gq, gq, gq), lambda: sectile.attention(gq, gq, gq)),
    ]


def main():
    rows = cases("cuda")
    best = {}
    for turn in range(12):  # the first one warms up
        for what, *calls in rows:
            for side, call in enumerate(calls):
                if not call:
                    continue
                torch.cuda.synchronize()
                count = 100 if "backward" in what else 500
                start = time.perf_counter()
                for _ in range(count):
                    call()
                took = (time.perf_counter() - start) / count * 1e6
                if turn:
                    best[what, side] = min(took, best.get((what, side), took))
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, {torch.cuda.get_device_name()}")
    for what, *_ in rows:
        print(f"{what:46s}" + "".join(f"{best[what, side]:9.2f}" if (what, side) in best else f"{'':9s}" for side in (0, 1)))


main()
