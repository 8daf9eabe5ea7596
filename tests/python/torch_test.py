# sectile and sectile.torch on torch's tensors, on the CPU (by the virtual GPU) and on a GPU where there is one. Skipped
# where there is no torch. torch_test.py [BUILD LIBRARY]; without these the package that is installed.
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [HERE, os.path.dirname(HERE)]

try:
    import torch
except ImportError:
    print("skipped: there is no torch here; its packages are too large to fetch for a test")
    sys.exit(77)

if len(sys.argv) > 1:
    sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[1]), "python"))
    os.environ["SECTILE_LIBRARY"] = os.path.abspath(sys.argv[2])

import sectile
import sectile.torch as st
from script import main

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
F = torch.nn.functional
torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = False


def close(a, b, bound=1e-4):
    torch.testing.assert_close(a, b, rtol=bound, atol=bound)


def raises(kind, function, says):
    try:
        function()
    except kind as error:
        assert says in str(error), str(error)
        return
    raise AssertionError(f"no {kind.__name__}")


def on_each_device(test):
    def tests():
        for device in DEVICES:
            test(device)

    return tests


def same_gradients(ours, formula, *tensors, bound=1e-3, compiled=True):
    """Of a sum that weighs each element by another number; eager and compiled."""
    weights = None
    found = []
    for function in (formula, ours) + ((torch.compile(ours, fullgraph=True),) if compiled else ()):
        given = [tensor.detach().requires_grad_() for tensor in tensors]
        result = function(*given)
        weights = torch.randn_like(result) if weights is None else weights
        (result * weights).sum().backward()
        found.append([result.detach()] + [tensor.grad for tensor in given])
    for one in found[1:]:
        for a, b in zip(one, found[0]):
            close(a, b, bound)


@on_each_device
def test_results(device):
    x = torch.randn(4, 9, device=device)
    close(sectile.softmax(x), x.softmax(-1), 1e-6)
    close(st.softmax(x), x.softmax(-1), 1e-6)
    assert sectile.softmax(x).device == x.device
    close(sectile.softmax(x.T), x.T.softmax(-1), 1e-6)
    close(sectile.softmax(x.bfloat16()), x.bfloat16().softmax(-1), 1e-2)
    y = torch.empty_like(x)
    assert sectile.softmax(x, out=y) is y
    close(y, x.softmax(-1), 1e-6)
    q, k, v = torch.randn(3, 1, 2, 32, 32, device=device)
    close(sectile.attention(q, k, v, causal=True).o, F.scaled_dot_product_attention(q, k, v, is_causal=True))
    raises(ValueError, lambda: sectile.vector_add(x, x[:2]), "vector_add")


@on_each_device
def test_tensors_that_are_not_what_memory_holds(device):
    x = torch.randn(3, 8, device=device)
    negated = torch.complex(x, x).conj().imag  # -x, by a bit of the tensor
    raises(ValueError, lambda: sectile.softmax(negated), says="resolve_neg()")
    raises(ValueError, lambda: st.softmax(negated), says="resolve_neg()")
    raises(ValueError, lambda: sectile.softmax(negated.requires_grad_()), says="resolve_neg()")
    raises(ValueError, lambda: sectile.softmax(x, out=torch.complex(x, x).conj().imag), says="resolve_neg()")
    close(sectile.softmax(negated.resolve_neg()), torch.softmax(-x, -1))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x)
        for function in (sectile.softmax, st.softmax, sectile.prepare(sectile.softmax, x)):
            raises(NotImplementedError, lambda: function(dual), says="x has a tangent")
        close(st.softmax(x), x.softmax(-1), 1e-6)
    # The gradient of y is such a view.
    weights = torch.randn(8, 8, device=device)
    same_gradients(lambda x: torch.complex(x, st.softmax(x)).conj().imag, lambda x: -x.softmax(-1), x, compiled=False)
    same_gradients(lambda x: torch.complex(x, st.matmul(x, weights)).conj().imag, lambda x: -x @ weights, x, compiled=False)
    for result in (sectile.softmax(x), sectile.rms_norm(x, x[0]).y, sectile.softmax(x.to(torch.bfloat16)), sectile.softmax(x[:0])):
        assert result.is_contiguous() and result.untyped_storage().resizable()  # torch's own
        assert not result.requires_grad and not result.is_inference()
    with torch.inference_mode():
        assert sectile.softmax(x).is_inference()
    freed = torch.randn(3, 8, device=device)
    freed.untyped_storage().resize_(0)
    raises(ValueError, lambda: sectile.softmax(freed), says="x has elements, but no memory")


@on_each_device
def test_gradients(device):
    def normal(*shape):
        return torch.randn(shape, device=device)

    x, w, b = normal(4, 32), normal(32), normal(32)
    same_gradients(sectile.softmax, lambda x: x.softmax(-1), x, compiled=False)
    same_gradients(lambda *t: sectile.layer_norm(*t, eps=1e-5).y, lambda x, w, b: F.layer_norm(x, (32,), w, b), x, w, b, compiled=False)
    same_gradients(st.softmax, lambda x: x.softmax(-1), x)
    same_gradients(lambda x: st.activation(x, kind="silu"), F.silu, x)
    same_gradients(lambda *t: st.layer_norm(*t, eps=1e-5).y, lambda x, w, b: F.layer_norm(x, (32,), w, b), x, w, b)

    def rms_norm(x, w, r):
        return F.rms_norm(x + r, (32,), w, 1e-6) + (x + r)

    def ours(x, w, r):
        y, h, _ = st.rms_norm(x, w, residual=r, eps=1e-6)
        return y + h

    same_gradients(ours, rms_norm, x, w, normal(4, 32))
    # Nothing depends on y; options.
    same_gradients(lambda x, r: sectile.rms_norm(x, w.detach(), residual=r, eps=1e-6).h, lambda x, r: x + r, x, normal(4, 32), compiled=False)
    same_gradients(lambda x: sectile.rms_norm(x, w.detach(), eps=0.5).y, lambda x: F.rms_norm(x, (32,), w.detach(), 0.5), x, compiled=False)
    q, k, v, bias = normal(1, 2, 32, 32), normal(1, 2, 32, 32), normal(1, 2, 32, 32), normal(1, 2, 32, 32)
    same_gradients(lambda q, k, v: st.attention(q, k, v, causal=True).o,
                   lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v)
    same_gradients(lambda q, k, v, bias: st.attention(q, k, v, bias=bias).o,
                   lambda q, k, v, bias: F.scaled_dot_product_attention(q, k, v, attn_mask=bias), q, k, v, bias)
    targets = torch.randint(0, 32, (4,), device=device)
    same_gradients(lambda x: st.cross_entropy(x, targets.int(), reduction="none").loss,
                   lambda x: F.cross_entropy(x, targets, reduction="none"), x)
    targets[1], weights = -100, torch.rand(32, device=device)
    for options in ({}, {"reduction": "sum", "label_smoothing": 0.2}, {"reduction": "mean", "label_smoothing": 0.2}):
        same_gradients(lambda x: sectile.cross_entropy(x, targets, weights, argmax=True, **options).loss,
                       lambda x: F.cross_entropy(x, targets, weights, **options), x, compiled=False)
    assert torch.equal(st.cross_entropy(x, targets, argmax=True).argmax, x.argmax(1).int())


@on_each_device
def test_gradients_of_products(device):
    def normal(*shape):
        return torch.randn(shape, device=device)

    exact = {"precision": "exact"}
    a, b, bias, residual = normal(24, 40), normal(40, 16), normal(16), normal(24, 16)
    scales = {"row_scale": torch.rand(24, device=device), "column_scale": torch.rand(16, device=device)}
    same_gradients(lambda a, b: st.matmul(a, b, **exact), lambda a, b: a @ b, a, b)
    same_gradients(lambda a, b: sectile.matmul(a, b, alpha=0.5, trans_a=True, trans_b=True, **exact), lambda a, b: 0.5 * a.T @ b.T,
                   normal(40, 24), normal(16, 40), compiled=False)
    same_gradients(lambda a, b, c, d: st.matmul(a, b, bias=c, residual=d, beta=-2.0, activation="silu", **scales, **exact),
                   lambda a, b, c, d: F.silu(a @ b * scales["row_scale"][:, None] * scales["column_scale"] + c - 2 * d),
                   a, b, bias, residual)
    for count in (1, 3):  # one right operand for the whole batch, and one for each product
        for turned in (False, True):
            same_gradients(lambda a, b, c: sectile.batched_matmul(a, b, bias=c, trans_a=turned, trans_b=turned, **exact),
                           lambda a, b, c: (a.mT if turned else a) @ (b.mT if turned else b) + c[:, None],
                           normal(3, 40, 24) if turned else normal(3, 24, 40), normal(count, 16, 40) if turned else normal(count, 40, 16),
                           normal(count, 16), compiled=False)
    sizes = torch.tensor([10, 0, 14], dtype=torch.int32, device=device)
    for turned in (False, True):
        same_gradients(lambda a, b: sectile.grouped_matmul(a, b, sizes, trans_rhs=turned, **exact),
                       lambda a, b: torch.cat([a[:10] @ (b[0].T if turned else b[0]), a[10:] @ (b[2].T if turned else b[2])]),
                       a, normal(3, 16, 40) if turned else normal(3, 40, 16), compiled=False)
    same_gradients(lambda x, y: sectile.vector_add(x, y), lambda x, y: x + y, residual, normal(24, 16), compiled=False)
    tokens, classes, targets = normal(12, 32), normal(40, 32), torch.randint(40, (12,), device=device)
    for reduction in ("mean", "sum", "none"):
        same_gradients(lambda x, w: st.linear_cross_entropy(x, w, targets, reduction=reduction, **exact).loss,
                       lambda x, w: F.cross_entropy(x @ w.T, targets, reduction=reduction), tokens, classes)
        same_gradients(lambda x, w, b: st.linear_cross_entropy(x, w, targets, bias=b, reduction=reduction, **exact).loss,
                       lambda x, w, b: F.cross_entropy(F.linear(x, w, b), targets, reduction=reduction), tokens, classes, normal(40))
        weights = torch.rand(40, device=device)
        same_gradients(lambda x, w: sectile.linear_cross_entropy(x, w, targets, class_weights=weights, reduction=reduction, **exact).loss,
                       lambda x, w: F.cross_entropy(x @ w.T, targets, weights, reduction=reduction), tokens, classes, compiled=False)
    raises(sectile.UnsupportedError, lambda: st.linear_cross_entropy(tokens.requires_grad_(), classes, targets).lse.sum().backward(),
           "no gradient by its output 'lse'")
    # Gradients of gradients are products, too.
    x = normal(8, 8).requires_grad_()
    (gradient,) = torch.autograd.grad(st.matmul(x, x, **exact).square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(gradient.sum(), x)
    (expected,) = torch.autograd.grad((x @ x).square().sum(), x, create_graph=True)
    close(second, torch.autograd.grad(expected.sum(), x)[0], 1e-3)


@on_each_device
def test_scaled_dot_product_attention(device):
    q = torch.randn(2, 4, 24, 32, device=device)
    k, v = torch.randn(2, 2, 4, 40, 32, device=device)
    visible = torch.rand(24, 40, device=device) < 0.7
    visible[:, 0] = True
    for words in ({}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": visible}, {"attn_mask": visible[None, None].expand(2, 1, 24, 40)},
                  {"attn_mask": torch.randn(4, 24, 40, device=device)}, {"attn_mask": torch.randn(2, 1, 1, 40, device=device)}):
        close(st.scaled_dot_product_attention(q, k, v, **words), F.scaled_dot_product_attention(q, k, v, **words))
    close(st.scaled_dot_product_attention(q[0], k[0], v[0], visible), F.scaled_dot_product_attention(q[0], k[0], v[0], visible))
    close(st.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True),
          F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True))
    raises(ValueError, lambda: st.scaled_dot_product_attention(q, k[:, :2], v[:, :2]), "enable_gqa")
    torch.manual_seed(3)
    one = st.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    other = st.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    torch.manual_seed(3)
    assert torch.equal(one, st.scaled_dot_product_attention(q, k, v, dropout_p=0.5)) and not torch.equal(one, other)


@on_each_device
def test_gradients_that_are_not_there(device):
    a, b = torch.randn(2, 16, 16, device=device)
    a.requires_grad_()
    scale = torch.ones(16, device=device, requires_grad=True)
    raises(sectile.UnsupportedError, lambda: sectile.matmul(a, b, row_scale=scale).sum().backward(), "gradient of 'row_scale'")
    raises(sectile.UnsupportedError, lambda: sectile.sort(a)[0].sum().backward(), "gradient of 'x'")
    with torch.no_grad():
        sectile.matmul(a, b)
    q, k, v = torch.randn(3, 1, 1, 16, 16, device=device)
    o, lse = sectile.attention(q.requires_grad_(), k, v)
    raises(sectile.UnsupportedError, lambda: (o.sum() + lse.sum()).backward(), "output 'lse'")
    o, lse = sectile.attention(q, k, v)
    (o.sum() + lse.detach().sum()).backward()
    x = torch.randn(4, 8, device=device, requires_grad=True)
    (gradient,) = torch.autograd.grad(sectile.softmax(x).square().sum(), x, create_graph=True)
    raises(sectile.UnsupportedError, lambda: gradient.sum().backward(), "softmax_backward")
    raises(sectile.UnsupportedError, lambda: sectile.softmax(a, out=torch.empty_like(a)), "out")


@on_each_device
def test_prepared_calls(device):
    x, out = torch.randn(2, 4, 33, device=device)
    call = sectile.prepare(sectile.softmax, x, out=out)
    assert call() is out
    close(out, x.softmax(-1), 1e-6)
    x.mul_(2)  # the same memory
    assert call() is out
    close(out, x.softmax(-1), 1e-6)
    # Others of the same kind, for this call alone.
    other, result = torch.randn(4, 33, device=device), torch.empty_like(x)
    assert call(other, out=result) is result and call(x=other) is out
    close(result, other.softmax(-1), 1e-6)
    close(out, result, 0)
    call()
    close(out, x.softmax(-1), 1e-6)
    w = torch.rand(33, device=device)
    by_name = sectile.prepare("rms_norm", x, w, eps=1e-3)
    result = by_name()
    assert by_name() is result and type(result).__name__ == "rms_norm_result"
    close(result.y, F.rms_norm(x, (33,), w, 1e-3), 1e-5)
    y = torch.empty_like(x)
    close(by_name(other, out=(y, None, None)).y, F.rms_norm(other, (33,), w, 1e-3), 1e-5)
    assert by_name(out=(y, None, None))[2] is result[2]
    raises(ValueError, lambda: call(x[:, :32]), "softmax")
    raises(TypeError, lambda: by_name(eps=1e-2), "prepared")
    raises(TypeError, lambda: call(x, x), "positional")
    raises(ValueError, lambda: by_name(residual=x), "was prepared without residual")
    raises(ValueError, lambda: sectile.prepare(sectile.softmax, x.clone().requires_grad_()), "gradient")
    raises(ValueError, lambda: call(x.clone().requires_grad_()), "gradient")
    with torch.no_grad():
        sectile.prepare(sectile.softmax, x.clone().requires_grad_())()
    raises(TypeError, lambda: sectile.prepare(len, x), "function of this module")
    raises(AttributeError, lambda: sectile.prepare("softmaxx", x), "softmaxx")
    raises(TypeError, lambda: sectile.prepare(sectile.softmax), "needs x")


@on_each_device
def test_results_that_are_given_and_gradients(device):
    x, kept = torch.randn(2, 4, 8, device=device)
    w = torch.randn(4, 8, device=device, requires_grad=True)
    call = sectile.prepare(sectile.softmax, x)
    norm = sectile.prepare(sectile.rms_norm, x)
    # The gradient of w would be made of the new numbers, so torch has to hear of them.
    for tensor, write in ((kept, lambda: sectile.softmax(x, out=kept)), (kept, lambda: call(out=kept)),
                          (kept, sectile.prepare(sectile.softmax, x, out=kept)), (call(), call), (norm().y, norm),
                          (kept, lambda: norm(out=(kept, None, None)))):
        product = (tensor * w).sum()
        write()
        raises(RuntimeError, product.backward, says="modified by an inplace operation")
    raises(ValueError, lambda: sectile.softmax(x, out=w), says="y requires a gradient")
    raises(ValueError, lambda: sectile.prepare(sectile.softmax, x, out=w * 2), says="y requires a gradient")
    raises(ValueError, lambda: call(out=w), says="y requires a gradient")
    with torch.no_grad():
        sectile.softmax(x, out=w)
    close(w.detach(), x.softmax(-1))


@on_each_device
def test_operators_see_what_looks_on(device):
    # The short way through the dispatcher is taken by plain calls alone.
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), words=None):
            seen.append(function)
            return function(*arguments, **(words or {}))

    x = torch.randn(3, 20, device=device)
    operator = torch.ops.sectile.softmax
    close(operator(x), x.softmax(-1), 1e-6)
    with Watch():
        close(operator(x), x.softmax(-1), 1e-6)
    assert operator.default in seen, seen
    with FakeTensorMode() as mode:
        assert operator(mode.from_tensor(x)).shape == x.shape
    close(torch.func.vmap(st.softmax)(x), x.softmax(-1), 1e-6)
    close(torch.func.vmap(operator)(x), x.softmax(-1), 1e-6)
    wanting = x.clone().requires_grad_()
    assert operator(wanting).grad_fn is not None and operator(x).grad_fn is None
    with torch.no_grad():
        assert not operator(wanting).requires_grad
    with torch.inference_mode():
        close(operator(x), x.softmax(-1), 1e-6)
    parts = torch.ops.sectile.topk(x, k=3)
    close(parts[0], x.topk(3).values, 1e-6)


def test_every_operator_is_well_formed():
    for name in sectile.operations():
        schema = getattr(torch.ops.sectile, name).default._schema
        assert len(schema.returns) == len(sectile._functions.operation(name).outputs), name


@on_each_device
def test_opcheck(device):
    x = torch.randn(4, 32, device=device, requires_grad=True)
    w = torch.randn(32, device=device, requires_grad=True)
    q = torch.randn(1, 1, 16, 16, device=device, requires_grad=True)
    for operator, tensors in ((torch.ops.sectile.softmax, (x,)), (torch.ops.sectile.rms_norm, (x, w)),
                              (torch.ops.sectile.layer_norm, (x, w)), (torch.ops.sectile.attention, (q, q, q)),
                              (torch.ops.sectile.topk, (x.detach(),))):
        words = {"k": 3} if operator is torch.ops.sectile.topk else {}
        torch.library.opcheck(operator.default, tensors, words, test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))


def test_streams_and_graphs():
    if "cuda" not in DEVICES:
        return
    x = torch.randn(512, 1024, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        y = x
        for _ in range(20):
            y = y + 1 - 1
        y = sectile.softmax(y) * 2
    torch.cuda.current_stream().wait_stream(stream)
    close(y, 2 * x.softmax(-1), 1e-5)
    # Torch's allocator knows of who reads a result: its memory is nobody else's before they have.
    y = sectile.softmax(x)
    place = y.data_ptr()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        y.record_stream(stream)
    del y
    assert sectile.softmax(x).data_ptr() != place
    # Scratch memory of these is given back meanwhile, which must not end the capture.
    q = torch.randn(1, 2, 64, 32, device="cuda", requires_grad=True)
    st.attention(q, q, q).o.sum().backward()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = sectile.softmax(x) * 2
    x.copy_(torch.randn_like(x))
    graph.replay()
    close(z, 2 * x.softmax(-1), 1e-6)


class Layer(torch.nn.Module):
    def __init__(self, attend, device):
        super().__init__()
        self.attend = attend
        self.first, self.second = (torch.nn.LayerNorm(32, device=device) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(32, 96, device=device), torch.nn.Linear(32, 32, device=device)
        self.up, self.down = torch.nn.Linear(32, 64, device=device), torch.nn.Linear(64, 32, device=device)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(batch, length, 3, 2, 16).permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attend(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Transformer(torch.nn.Module):
    """A language model of two layers; its forward pass gives the loss."""

    def __init__(self, attend, device):
        super().__init__()
        torch.manual_seed(1)
        self.embedding = torch.nn.Embedding(50, 32, device=device)
        self.layers = torch.nn.ModuleList(Layer(attend, device) for _ in range(2))
        self.head = torch.nn.Linear(32, 50, device=device)

    def forward(self, tokens):
        x = self.embedding(tokens[:, :-1])
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens[:, 1:].flatten())


def losses(attend, device, in_graph, steps=4):
    """Of a few steps of training, compiled as a whole; in_graph: replayed from a CUDA graph."""
    model = Transformer(attend, device)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    compiled = torch.compile(model, fullgraph=True)
    torch.manual_seed(2)
    tokens = torch.randint(0, 50, (2, 25), device=device)

    def step():
        loss = compiled(tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    if not in_graph:
        return torch.stack([step() for _ in range(steps)])
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # what compiles and allocates comes before the capture
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph, found = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        loss = step()
    for _ in range(steps):
        graph.replay()
        found.append(loss.clone())
    return torch.stack(found)


def test_a_model_trains_alike():
    """Attention of a small transformer replaced by ours, forward and backward: the same losses as torch's."""
    for device in DEVICES:
        for in_graph in [False] + [True] * (device == "cuda"):
            ours = losses(st.scaled_dot_product_attention, device, in_graph)
            close(ours, losses(F.scaled_dot_product_attention, device, in_graph), 1e-3)
            assert ours[-1] < ours[0], ours


main({name: value for name, value in globals().items() if callable(value)})
