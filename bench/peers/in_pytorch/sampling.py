# Sampling: by sorting, as PyTorch's users do.
import torch

from case import PYTORCH, NoPeer, peer


def kept(probs, c):
    """The probabilities that stay, in falling order, and where they are."""
    k, p = c.integer("top_k"), c.number("top_p", 1)
    values, places = probs.topk(k, sorted=True) if k else probs.sort(descending=True, stable=True)
    if p < 1:
        whole = values.sum(-1, keepdim=True) if c.choice("order", "k_first") == "k_first" else 1
        before = values.cumsum(-1) - values
        values = torch.where(before < p * whole, values, 0)
    return values, places


@peer(PYTORCH, "sample")
def _(c):
    temperature = c.number("temperature", 1)
    c.require(c.given("logits") == list(c.inputs), "rows with numbers of their own")
    c.require(c.number("min_p") == 0, "min_p")

    def sample(logits):
        if temperature == 0:
            return logits.argmax(-1).int()
        probs = torch.softmax(logits.float() / temperature, -1)
        if c.integer("top_k") == 0 and c.number("top_p", 1) >= 1:
            return probs.multinomial(1).squeeze(-1).int()
        values, places = kept(probs, c)
        return places.gather(-1, values.multinomial(1)).squeeze(-1).int()

    return sample, ["logits"]


@peer(PYTORCH, "renormalize")
def _(c):
    c.require(c.given("probs") == list(c.inputs), "rows with numbers of their own")

    def renormalize(probs):
        values, places = kept(probs, c)
        return torch.zeros_like(probs).scatter(-1, places, values / values.sum(-1, keepdim=True))

    return renormalize, ["probs"]


@peer(PYTORCH, "speculative_verify")
def _(c):
    raise NoPeer("PyTorch has no such function")
