# The library's kernels in PyTorch. `work` makes of a case something to time.
import torch

from case import DEVICE, PYTORCH, NoPeer, make

from . import attention, collection, elements, experts, positions, products, recurrent, rows, sampling, sequences  # noqa: F401


def gradients(c):
    """The gradients of a kernel whose forward function is known: those that the call gives, by autograd."""
    forward = c.kernel.removesuffix("_backward")
    if forward == c.kernel or forward not in PYTORCH:
        raise NoPeer("")
    wanted = {name[1:]: argument for name, argument in c.outputs.items() if name.startswith("d")}
    for name, argument in wanted.items():
        if name not in c:  # as a bias, whose gradient does not depend on it
            c.inputs[name] = make(argument)
    function, names = PYTORCH[forward](c)
    leaves = {name: c[name].detach().clone().requires_grad_(name in wanted and c[name].is_floating_point()) for name in names}
    upstream = [c[name] for name in c.inputs if name.startswith("d") and not {name, name[1:]} & set(names)]
    return function, leaves, [name for name in names if name in wanted], upstream


def work(c):
    """Something to call, and the names of what it gives."""
    wrap = lambda f: f  # noqa: E731
    if c.compiled:
        torch._dynamo.reset()
        # Without a GPU nothing is timed: that PyTorch can trace it is all there is to see.
        backend = "inductor" if DEVICE == "cuda" else "aot_eager"
        wrap = lambda f: torch.compile(f, dynamic=False, backend=backend)  # noqa: E731
    if c.kernel in PYTORCH:
        function, names = PYTORCH[c.kernel](c)
        function, tensors = wrap(function), [c[name] for name in names]

        @torch.no_grad()
        def run():
            return function(*tensors)

        return run, list(c.outputs)
    function, leaves, wanted, upstream = gradients(c)
    results = wrap(function)(*leaves.values())
    results = list(results if isinstance(results, tuple) else (results,))[: len(upstream)]
    upstream = [grad.to(result.dtype).reshape(result.shape) for grad, result in zip(upstream, results)]
    targets = [leaves[name] for name in wanted]
    return lambda: torch.autograd.grad(results, targets, upstream, retain_graph=True), ["d" + name for name in wanted]
