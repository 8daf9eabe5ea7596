# sectile.torch: every operation as an operator of torch, with gradients, for torch.compile, torch.export and graphs.
"""Sectile's operations as operators of torch.

sectile.torch.attention(q, k, v) is sectile.attention(q, k, v), and besides may stand in what torch.compile, torch.export
and functorch look into: each is a registered operator, torch.ops.sectile.attention, that knows its results' shapes and
its gradients. sectile.attention has the same gradients, but cannot be compiled by torch.
"""
import torch
import torch.library

from . import _functions, _gradients, operations
from ._errors import UnsupportedError

_DTYPES = {
    "bool": torch.bool, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64, "f16": torch.float16,
    "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2, "f8e4m3fnuz": torch.float8_e4m3fnuz, "f8e5m2fnuz": torch.float8_e5m2fnuz,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_KINDS = {"flag": "bool", "number": "float", "integer": "int", "seed": "int"}

_library = torch.library.Library("sectile", "DEF")
_defined = {}  # functions by name


def _signed(value):
    """An option's value as an operator of torch takes it: its integers have 64 bits and a sign."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1 << 63:
        return value - (1 << 64)
    return value


class _Operator:
    """An operation's registration. An operator has tensors and no None for results, so one that a call does not have is an
    empty tensor between the operator and the function."""

    def __init__(self, name):
        self.op = op = _functions.operation(name)
        self.pair = _gradients.pair(name)
        self.plain = _functions.function(name, gradients=False)
        self.inputs = [_functions.python_name(argument["name"]) for argument in op.inputs]
        self.options = {_functions.python_name(option["name"]): option for option in op.options}
        self.outputs = [argument["name"] for argument in op.outputs]
        self.result = _functions.result_type(name)
        _library.define(f"{name}{self.schema()}", tags=(torch.Tag.pt2_compliant_tag,))
        for key in ("CPU", "CUDA"):
            _library.impl(name, self.compute, key)
        torch.library.register_fake(f"sectile::{name}", self.fake, lib=_library)
        torch.library.register_autograd(f"sectile::{name}", self.backward, setup_context=self.keep, lib=_library)
        self.operator = getattr(torch.ops.sectile, name).default

    def schema(self):
        words = [f"Tensor {name}" if i < self.op.required else f"Tensor? {name}=None" for i, name in enumerate(self.inputs)]
        words.append("*") if self.options else None
        for name, option in self.options.items():
            kind = _KINDS.get(option["kind"], "str")
            default = _functions.default_of(option)
            if option["kind"] == "seed" and default != "None":
                default = str(_signed(int(default)))
            words.append(f"{kind}? {name}=None" if default == "None" else f"{kind} {name}={default}")
        results = "Tensor" if len(self.outputs) == 1 else f"({', '.join(['Tensor'] * len(self.outputs))})"
        return f"({', '.join(words)}) -> {results}"

    def present(self, inputs, options):
        given = {argument["name"] for argument, tensor in zip(self.op.inputs, inputs) if tensor is not None}
        named = {self.options[word]["name"]: value for word, value in options.items()}
        return _gradients.present(self.op, given, named)

    def compute(self, *inputs, **options):
        result = self.plain(*inputs, **options)
        if len(self.outputs) == 1:
            return result
        return tuple(inputs[0].new_empty(0) if tensor is None else tensor for tensor in result)

    def fake(self, *inputs, **options):
        types = [None] * len(self.inputs)
        for place, tensor in zip(self.op.places, inputs):
            types[place] = None if tensor is None else (_NAMES[tensor.dtype], tuple(int(extent) for extent in tensor.shape))
        made = [
            inputs[0].new_empty(0) if kind is None else inputs[0].new_empty(kind[1], dtype=_DTYPES[kind[0]])
            for kind in _functions.infer(self.op.name, types, options)
        ]
        return made[0] if len(made) == 1 else tuple(made)

    def keep(self, ctx, inputs, output, keyword_only_inputs=None):
        options = keyword_only_inputs or {}
        outputs = (output,) if len(self.outputs) == 1 else output
        present = self.present(inputs, options)
        ctx.set_materialize_grads(False)
        ctx.first = 0  # of the inputs, among what torch has gradients for
        if self.pair is None:
            return
        known = {argument["name"]: tensor for argument, tensor in zip(self.op.inputs, inputs)}
        known |= {name: tensor if there else None for name, tensor, there in zip(self.outputs, outputs, present)}
        ctx.needed = [name for name in dict.fromkeys(self.pair.needs())]
        ctx.save_for_backward(*(known.get(name) for name in ctx.needed))
        ctx.shapes = {name: (tensor.shape, tensor.dtype) if there else None
                      for name, tensor, there in zip(self.outputs, outputs, present)}
        ctx.options = {word: value for word, value in options.items()
                       if self.options[word]["name"] in self.pair.options and value is not None}

    def backward(self, ctx, *gradients):
        inputs = [argument["name"] for argument in self.op.inputs]
        wanted = [name for name, needed in zip(inputs, ctx.needs_input_grad[ctx.first:]) if needed]
        for name in wanted:
            if not self.pair or name not in self.pair.results:
                raise UnsupportedError(f"sectile.{self.op.name} has no gradient of '{name}': detach it")
        for name, gradient in zip(self.outputs, gradients):
            if gradient is not None and name not in self.pair.differentiable_outputs:
                raise UnsupportedError(f"sectile.{self.op.name} has no gradient by its output '{name}': detach it")
        some = next(gradient for gradient in gradients if gradient is not None)

        def zeros(name):
            kind = ctx.shapes[name]
            return kind and torch.zeros(kind[0], dtype=kind[1], device=some.device)

        known = dict(zip(ctx.needed, ctx.saved_tensors))
        given = self.pair.arguments(known, dict(zip(self.outputs, gradients)), zeros)
        backward = _operator(self.pair.backward.name)
        arguments = [given[argument["name"]] for argument in self.pair.backward.inputs]
        run = backward.call if torch.compiler.is_compiling() or torch.is_grad_enabled() else backward.eager
        result = run(*arguments, **ctx.options)
        results = (result,) if len(backward.outputs) == 1 else result
        by_name = dict(zip(backward.outputs, results))
        return tuple(by_name[self.pair.results[name]] if name in wanted else None for name in inputs)

    def eager(self, *inputs, **options):
        """The call without the operator, where nothing records gradients."""
        return self.plain(*inputs, **options) if all(map(_is_plain, inputs)) else self.call(*inputs, **options)

    def call(self, *inputs, **options):
        options = {word: _signed(value) for word, value in options.items() if value is not None}
        result = self.operator(*inputs, **options)
        if len(self.outputs) == 1:
            return result
        inputs += (None,) * (len(self.inputs) - len(inputs))
        there = self.present(inputs, options)
        return self.result(*[tensor if here else None for tensor, here in zip(result, there)])


def _is_plain(tensor):
    return tensor is None or type(tensor) in (torch.Tensor, torch.nn.Parameter)


class _Eager(torch.autograd.Function):
    """A call with a gradient that costs a third of an operator's."""

    @staticmethod
    def forward(ctx, operator, options, *inputs):
        result = operator.plain(*inputs, **options)
        operator.keep(ctx, inputs, result, options)
        ctx.operator, ctx.first = operator, 2
        return result if len(operator.outputs) == 1 else tuple(result)

    @staticmethod
    def backward(ctx, *gradients):
        return (None, None, *ctx.operator.backward(ctx, *gradients))


def _operator(name):
    if name not in _defined:
        _defined[name] = _Operator(name)
    return _defined[name]


def _traced(name):
    """The function that calls the operator: what torch looks into."""
    operator = _operator(name)
    names = operator.inputs

    def call(*inputs, **words):
        if words.pop("out", None) is not None:
            raise UnsupportedError(f"{name}() with out has no gradients and cannot be compiled: leave out away")
        if len(inputs) > len(names):
            raise TypeError(f"{name}() takes {len(names)} tensors by place, and {len(inputs)} were given")
        given = list(inputs) + [words.pop(word, None) for word in names[len(inputs):]]
        for word, tensor in zip(names[: operator.op.required], given):
            if tensor is None:
                raise TypeError(f"{name}() needs {word}")
        for word in words:
            if word not in operator.options:
                raise TypeError(f"{name}() has no argument '{word}'")
        if torch.compiler.is_compiling() or not all(map(_is_plain, given)):
            return operator.call(*given, **words)
        result = _Eager.apply(operator, words, *given)
        return result if len(operator.outputs) == 1 else operator.result(*result)

    return call


def _function(name):
    traced, eager = _functions_by_name[name], _functions.function(name)

    def call(*inputs, **words):
        return traced(*inputs, **words) if torch.compiler.is_compiling() else eager(*inputs, **words)

    call.__name__ = call.__qualname__ = name
    call.__module__ = __name__
    call.__doc__ = _functions.operation(name).documentation
    return call


_functions_by_name = {name: _traced(name) for name in operations()}  # what sectile.attention() calls for a gradient
globals().update({name: _function(name) for name in operations()})


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """torch.nn.functional.scaled_dot_product_attention, computed by sectile.attention: a bool mask is true where a query
    sees a key, another one is added to the scores. Dropout follows torch's generator, and drops other weights than torch.
    A mask's gradient is computed where it is asked for. Queries that see no key give 0."""
    if query.dim() not in (3, 4):
        raise ValueError(f"query has {query.dim()} axes: 3 or 4 are possible")
    if is_causal and attn_mask is not None:
        raise ValueError("is_causal and attn_mask exclude each other")
    if is_causal and query.shape[-2] != key.shape[-2]:
        # Torch aligns the triangle with the first query and key, this library with the last ones.
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        is_causal = False
    if query.dim() == 3:
        mask = attn_mask.unsqueeze(-3) if attn_mask is not None and attn_mask.dim() == 3 else attn_mask
        return scaled_dot_product_attention(query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1), mask, dropout_p,
                                            is_causal, scale, enable_gqa).squeeze(1)
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise ValueError(f"query has {query.shape[1]} heads and key {key.shape[1]}: enable_gqa allows it")
    words = {}
    if attn_mask is not None:
        # Axes that are broadcast along queries or keys are written out; those of the batch and the heads need not be.
        mask = attn_mask.reshape((1,) * (4 - attn_mask.dim()) + attn_mask.shape)
        mask = mask.expand(*mask.shape[:2], query.shape[-2], key.shape[-2])
        words["mask" if mask.dtype == torch.bool else "bias"] = mask if mask.dtype == torch.bool else mask.to(query.dtype)
    if dropout_p > 0:
        words["seed_offset"] = torch.randint(0, 1 << 62, (1,), device=query.device)
    return attention(query, key, value, causal=is_causal, dropout=float(dropout_p), scale=scale, **words).o  # noqa: F821
