# Whether two programs computed the same.
import math

import torch


def difference(got, expected):
    """What is wrong with a tensor where another was expected, or nothing."""
    if math.prod(got.shape) != math.prod(expected.shape):
        return f"is {list(got.shape)}, not {list(expected.shape)}"
    if expected.dtype == torch.bool or not expected.dtype.is_floating_point:
        wrong = (got.reshape(expected.shape) != expected).sum().item()
        return f"differs in {wrong} of {expected.numel()}" if wrong else ""
    got, expected = got.float().reshape(expected.shape), expected.float()
    # The same infinities and NaNs, or none.
    same = (got == expected) | (got.isnan() & expected.isnan())
    distance = torch.where(same, 0.0, (got - expected).abs())
    worst, size = distance.max().item() if distance.numel() else 0.0, expected[expected.isfinite()].abs().max().item()
    return "" if worst <= 2e-2 * max(size, 1e-2) else f"is up to {worst:.3g} away, of numbers up to {size:.3g}"


def dropped(c, results):
    """Dropout draws numbers of its own everywhere: a share of the elements is kept, and scaled."""
    (name, result), p = next(iter(results.items())), c.number("p", 0.5)
    x = c["dy" if c.is_backward() else "x"].float()
    result, kept = result.float().reshape(x.shape), result.reshape(x.shape) != 0
    away = torch.where(kept, (result - x / (1 - p)).abs(), 0.0).max().item()
    share = (kept & (x != 0)).sum().item() / max(1, (x != 0).sum().item())
    # Six standard deviations.
    if abs(share - (1 - p)) > 6 * math.sqrt(p * (1 - p) / x.numel()) or away > 2e-2 * x.abs().max().item():
        return f"{name} keeps {share:.4f}, and is up to {away:.3g} away"
    return ""


def problem(c, results, expected):
    """What is wrong with the results of a case, by the names of its outputs; `expected` may be empty."""
    if c.kernel.startswith("dropout"):
        return dropped(c, results)
    if c.kernel == "sample" and c.number("temperature", 1) != 0:  # draws of its own everywhere
        token, width = results["token"], c["logits"].shape[-1]
        return "" if ((token >= 0) & (token < width)).all() else "token is none"
    for name, result in results.items():
        if name not in expected:
            shape = c.outputs[name]["shape"]
            if math.prod(shape) != result.numel():
                return f"{name} is {list(result.shape)}, not {shape}"
        elif name == "indices" and c.kernel == "topk":
            # Equal numbers may come in any order.
            if what := difference(c["x"].gather(-1, result.long()), c["x"].gather(-1, expected[name].long())):
                return f"{name}: {what}"
        elif what := difference(result, expected[name]):
            return f"{name} {what}"
    return ""
