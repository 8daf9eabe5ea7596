# The package over NumPy arrays, on the virtual GPU and the interpreter. numpy_test.py BUILD LIBRARY
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [HERE, os.path.dirname(HERE)]

if "inside" not in sys.argv:
    from environment import python_with, run_in

    build, library = map(os.path.abspath, sys.argv[1:])
    run_in(python_with(os.path.join(build, "python-numpy"), "numpy", "ml_dtypes"), os.path.abspath(__file__), "inside",
           build, library=library, package=os.path.join(build, "python"))

import ast
import inspect
import threading

import ml_dtypes
import numpy as np
import sectile
from script import main
from sectile import _functions, _gradients

random = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return random.standard_normal(shape).astype(dtype)


def raises(error_class, function, *arguments, says=(), **words):
    try:
        function(*arguments, **words)
    except error_class as error:
        for word in (says,) if isinstance(says, str) else says:
            assert word in str(error), (word, str(error))
        return error
    raise AssertionError(f"no {error_class.__name__}")


def attention(q, k, v, causal):
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        scores[..., np.triu(np.ones(scores.shape[-2:], bool), 1)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    sums = weights.sum(-1, keepdims=True)
    return weights / sums @ v, (np.log(sums) + scores.max(-1, keepdims=True))[..., 0]


def close(a, b, bound):
    assert a.shape == b.shape, (a.shape, b.shape)
    error = np.abs(a.astype(np.float64) - b).max(initial=0.0)
    assert error <= bound, error


def test_results_are_right():
    q, k, v = normal(3, 1, 2, 48, 32)
    for causal in (False, True):
        o, lse = sectile.attention(q, k, v, causal=causal)
        assert type(o) is np.ndarray and o.dtype == np.float32 and lse.dtype == np.float32
        wanted = attention(q, k, v, causal)
        close(o, wanted[0], 1e-5)
        close(lse, wanted[1], 1e-5)
    x = normal(5, 33)
    close(sectile.softmax(x), np.exp(x.astype(np.float64)) / np.exp(x.astype(np.float64)).sum(-1, keepdims=True), 1e-6)
    a, b = normal(17, 40), normal(40, 24)
    close(sectile.matmul(a, b, precision="exact"), a.astype(np.float64) @ b, 1e-4)


def test_every_device_on_the_host():
    x = normal(4, 20)
    results = []
    for device in ("virtual:sm_80", "virtual:gfx942", "interpreter", None):
        sectile.use_host_device(device)
        results.append(sectile.softmax(x))
        close(results[-1], results[0], 1e-6)
    raises(sectile.DeviceError, sectile.use_host_device, "virtual:sm_1")
    close(sectile.softmax(x), results[-1], 0)


def test_strides_and_views():
    x = normal(40, 12)
    for view in (x[::2], x[:, ::-1], x.T, x[3:7, 2:5], np.broadcast_to(x[:1], (6, 12)), x[:0]):
        close(sectile.softmax(view), sectile.softmax(np.ascontiguousarray(view)), 0)
    raises(ValueError, sectile.softmax, np.zeros(8, "f4,i2")["f0"].reshape(2, 4), says="apart")


def test_dtypes():
    x = normal(3, 16)
    for dtype, bound in ((np.float16, 1e-3), (ml_dtypes.bfloat16, 1e-2)):
        y = sectile.softmax(x.astype(dtype))
        assert y.dtype == dtype, y.dtype
        close(y, sectile.softmax(x), bound)
    raises(ValueError, sectile.softmax, x.astype(np.float64), says="f64")
    raises(TypeError, sectile.softmax, x.astype(np.complex64), says="complex64")
    raises(TypeError, sectile.softmax, x.astype(">f4"), says=">f4")
    y, scales = sectile.quantize(x)
    assert y.dtype == ml_dtypes.float8_e4m3fn, y.dtype


def test_options():
    x = normal(9)
    close(sectile.activation(x, kind="relu"), np.maximum(x, 0), 0)
    q, k, v = normal(3, 1, 1, 16, 16)
    o, _ = sectile.attention(q, k, v, scale=np.float32(0.25))
    close(o, sectile.attention(q, k, v, scale=None).o, 1e-6)
    raises(sectile.InvalidError, sectile.activation, x, kind="relv", says=("relv", "relu"))
    raises(TypeError, sectile.activation, x, knd="relu", says="knd")
    raises(TypeError, sectile.activation, x, kind=[], says="kind")
    raises(OverflowError, sectile.dropout, x, seed=1 << 64)
    once, again = (sectile.dropout(x, p=0.5, seed=(1 << 64) - 1) for _ in range(2))
    assert (once == again).all()
    close(sectile.dropout(x, p=0.5, seed=-1), once, 0)


def test_outputs_that_the_caller_has():
    x, y = normal(4, 8), np.empty((4, 8), np.float32)
    assert sectile.softmax(x, out=y) is y
    close(y, sectile.softmax(x), 0)
    q, k, v = normal(3, 1, 1, 16, 16)
    o = np.zeros((1, 16, 1, 16), np.float32).swapaxes(1, 2)
    result = sectile.attention(q, k, v, out=(o, None))
    assert result.o is o and result[1].shape == (1, 1, 16)
    close(o, attention(q, k, v, False)[0], 1e-5)
    raises(TypeError, sectile.attention, q, k, v, out=o, says="tuple")
    raises(ValueError, sectile.attention, q, k, v, out=(o,), says="2 outputs")
    raises(ValueError, sectile.softmax, x, out=np.empty((4, 9), np.float32))
    raises(ValueError, sectile.softmax, x, out=np.empty((4, 8), np.float16))
    y.flags.writeable = False
    raises(ValueError, sectile.softmax, x, out=y, says="read-only")
    # Results that share memory with an input are those of the input as it was.
    sums = sectile.reduce(x)
    sectile.reduce(x, out=x[:, 0])
    close(x[:, 0], sums, 0)
    # Two results in one place, or two elements of one.
    gate, up, dy, both = normal(4, 4, 8)
    raises(ValueError, sectile.swiglu_backward, gate, up, dy, out=(both, both), says="dup overlaps dgate in memory")
    call = sectile.prepare(sectile.swiglu_backward, gate, up, dy)
    raises(ValueError, call, out=(both, both), says="dup overlaps dgate in memory")
    line = np.lib.stride_tricks.as_strided(np.empty(8, np.float32), (4, 8), (0, 4))
    raises(ValueError, sectile.softmax, x, out=line, says="elements of y lie at one address")
    two = np.empty((4, 16), np.float32)
    close(sectile.swiglu_backward(gate, up, dy, out=(two[:, ::2], two[:, 1::2])).dup, sectile.swiglu_backward(gate, up, dy).dup, 0)
    close(two[:, ::2], sectile.swiglu_backward(gate, up, dy).dgate, 0)


def test_outputs_that_are_not_there():
    x, w = normal(4, 8), normal(8)
    y, h, rstd = sectile.rms_norm(x, w)
    assert h is None and rstd.shape == (4,)
    assert sectile.rms_norm(x, w, residual=x).h.shape == x.shape


def test_what_is_no_call():
    x = normal(4, 8)
    raises(TypeError, sectile.softmax, says="needs x")
    raises(TypeError, sectile.softmax, None, says="needs x")
    raises(TypeError, sectile.softmax, [1.0], says=("x", "list"))
    raises(TypeError, sectile.softmax, np.ma.masked_array(x, x > 0), says="mask")
    raises(TypeError, sectile.softmax, x, x, says="takes 1 positional tensor, and 2 were given")
    raises(TypeError, sectile.softmax, x, dim=0, says="no argument 'dim'; it has x, out")
    raises(TypeError, sectile.softmax, x, x=x, says="twice")
    raises(sectile.InvalidError, sectile.vector_add, x, x[:2], says="vector_add")
    raises(AttributeError, lambda: sectile.sofmax)
    # What was refused leaves nothing behind.
    close(sectile.softmax(x), sectile.softmax(x=x), 0)


def test_read_only_inputs():
    x = normal(4, 8)
    x.flags.writeable = False
    sectile.softmax(x)


def test_nothing_leaks():
    x = normal(4, 8)
    sectile.softmax(x)
    raises(sectile.InvalidError, sectile.activation, x, kind="none")
    before = sys.getrefcount(x)
    for _ in range(50):
        sectile.softmax(x, out=np.empty_like(x))
        raises(sectile.InvalidError, sectile.activation, x, kind="none")
        raises(ValueError, sectile.softmax, x, out=np.empty((4, 9), np.float32))
    assert sys.getrefcount(x) == before


def test_threads():
    x, wrong = normal(64, 64), []
    wanted = sectile.softmax(x)

    def work():
        for _ in range(20):
            if not (sectile.softmax(x) == wanted).all():
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_given_results_keep_what_is_not_written():
    rows, matrices, sizes = normal(10, 16), normal(2, 16, 8), np.array([3, 4], np.int32)
    given = np.full((10, 16), 7, np.float32)
    sectile.grouped_matmul(rows, matrices, sizes, out=given[:, ::2], precision="exact")
    close(given[:3, ::2], rows[:3].astype(np.float64) @ matrices[0], 1e-5)
    assert (given[7:] == 7).all() and (given[:, 1::2] == 7).all()
    call = sectile.prepare(sectile.grouped_matmul, rows, matrices, sizes, out=given[:, ::2])
    given[7:] = 8
    call()
    assert (given[7:, ::2] == 8).all()
    other = np.full((10, 8), 9, np.float32)
    call(rows, out=other)
    assert (other[7:] == 9).all() and (other[:7] != 9).all()


def test_other_frameworks_by_dlpack():
    class Array:  # of a framework that has nothing but the protocol
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, *, stream=None, max_version=None):
            assert stream is None
            return self.array.__dlpack__(max_version=max_version)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        def __array_namespace__(self):
            return sys.modules[__name__]

    global from_dlpack
    from_dlpack = lambda tensor: Array(np.from_dlpack(tensor))
    x = normal(4, 8)
    y = sectile.softmax(Array(x))
    assert type(y) is Array
    close(y.array, sectile.softmax(x), 0)
    close(sectile.softmax(Array(x[::2].T)).array, sectile.softmax(x[::2].T), 0)


# A call of each operation that has gradients: extents by axis, or arrays of integers by argument, and options.
ATTENTION = {"B": 1, "Hq": 2, "Hkv": 1, "Sq": 6, "Sk": 9, "D": 16, "Dv": 16, "R": 1}
ROWS = {"...": (3,), "N": 16}
POSITIONS = {"B": 2, "S": 3, "H": 16, "P": 5}
CALLS = {
    "activation": ({"...": (7,)}, {"kind": "silu"}),
    "swiglu": ({"...": (7,)}, {}),
    "geglu": ({"...": (7,)}, {}),
    "dropout": ({"...": (7,)}, {"p": 0.25, "seed": 5}),
    "embedding": ({"V": 7, "H": 8, "indices": [1, 6, 1]}, {}),
    "softmax": (ROWS, {}),
    "log_softmax": (ROWS, {}),
    "cross_entropy": ({"...": (3,), "V": 11, "targets": [10, 0, 4]}, {"label_smoothing": 0.1}),
    "layer_norm": (ROWS, {}),
    "rms_norm": (ROWS, {}),
    "rms_norm_gated": (ROWS, {"norm_before_gate": False}),
    "group_norm": ({"B": 2, "C": 4, "...": (6,)}, {"groups": 2}),
    "conv2d": ({"N": 1, "C": 4, "H": 5, "W": 5, "K": 4, "Cg": 2, "R": 3, "S": 3}, {"groups": 2, "pad_h": 1}),
    "causal_conv1d": ({"B": 2, "T": 5, "D": 4, "W": 3, "N": 2, "C": 2}, {}),
    "attention": (ATTENTION, {"causal": True, "softcap": 2.0}),
    "attention_varlen": ({**ATTENTION, "Tq": 6, "Tk": 9, "Mk": 5, "cu_seqlens_q": [0, 2, 6], "cu_seqlens_k": [0, 4, 9]}, {}),
    "block_sparse_attention": ({**ATTENTION, "Mq": 1, "Mk": 1}, {}),
    "moe_route": ({"T": 3, "E": 4}, {"k": 2, "scoring": "sigmoid"}),
    "moe_combine": ({"M": 6, "N": 8, "T": 3, "C": 2, "inverse": [[0, 3], [5, -1], [2, 4]]}, {}),
    "ring_attention": (ATTENTION, {}),
    "rope": ({"B": 1, "H": 2, "S": 3, "D": 16}, {"offset": 2}),
    "add_positions": (POSITIONS, {"scale": 1.5}),
    "sinusoidal": (POSITIONS, {"scale": 1.5}),
    "rope_attention": (ATTENTION, {"causal": True}),
    "rerope_attention": (ATTENTION, {"window": 2}),
    "exposb_attention": (ATTENTION, {}),
    "stick_breaking_attention": ({**ATTENTION, "Sk": 6}, {}),
    "mean_pool": ({"B": 2, "T": 3, "D": 4}, {}),
    "chunk_mean_pool": ({"B": 2, "T": 6, "H": 1, "D": 4}, {"chunk": 2}),
    "linear_recurrence": ({"B": 1, "H": 2, "T": 5, "Dk": 16, "Dv": 16}, {}),
    "delta_rule": ({"B": 1, "T": 5, "Hk": 1, "Hv": 2, "K": 16, "V": 16, "N": 1}, {"qk_l2norm": True, "rule": "add"}),
    "kda": ({"B": 1, "T": 5, "Hk": 1, "Hv": 2, "K": 16, "V": 16, "N": 1}, {"qk_l2norm": True}),
    "rwkv7": ({"B": 1, "T": 5, "Hk": 1, "Hv": 2, "K": 16, "V": 16, "N": 1}, {"scale": 0.5}),
    "rnn": ({"T": 3, "B": 2, "I": 4, "G": 5, "H": 5, "...": ()}, {}),
    "gru": ({"T": 3, "B": 2, "I": 4, "G": 15, "H": 5, "...": ()}, {}),
    "lstm": ({"T": 3, "B": 2, "I": 4, "G": 20, "H": 5, "...": ()}, {}),
}


def array_of(argument, extents):
    """Values that no formula is steep at."""
    if argument["name"] in extents:
        return np.array(extents[argument["name"]], np.int32)
    shape = []
    for axis in argument["axes"]:
        axis = axis.removeprefix("1|")
        shape += extents[axis] if axis == "..." else [int(axis) if axis.isdigit() else extents[axis]]
    if argument["dtypes"] == ["bool"]:
        return np.ones(shape, bool)
    if argument["name"] in ("g", "gk"):  # logarithms of decays
        return -np.abs(normal(*shape)) / 4
    return normal(*shape) / 2


def check_pair(name, optional):
    """The gradients along some direction against the difference that a small step makes."""
    global random
    random = np.random.default_rng(len(name))  # of its own, whichever pairs there are before
    op, pair = _functions.operation(name), _gradients.pair(name)
    extents, options = CALLS[name]
    if any(option["name"] == "precision" for option in op.options):
        options = {**options, "precision": "exact"}
    kinds = {argument["name"]: argument for argument in op.all_inputs}
    floats = [n for n, kind in kinds.items() if n in pair.results]
    inputs = {n: array_of(kind, extents) if not kind["optional"] or optional and n in floats else None for n, kind in kinds.items()}
    floats = [n for n in floats if inputs[n] is not None]
    wanted = [output["name"] for output in op.outputs if output["name"] in pair.differentiable_outputs]

    def call(inputs):
        result = getattr(sectile, name)(**{_functions.python_name(n): array for n, array in inputs.items()}, **options)
        return dict(zip((output["name"] for output in op.outputs), result if len(op.outputs) > 1 else (result,)))

    outputs = call(inputs)
    weights = {n: normal(*outputs[n].shape) if outputs[n] is not None else None for n in wanted}
    gradients = {output["name"]: weights.get(output["name"]) for output in op.outputs}
    given = pair.arguments({**inputs, **outputs}, gradients, lambda of: None)
    made = getattr(sectile, pair.backward.name)(
        **{_functions.python_name(n): array for n, array in given.items()},
        **{option: value for option, value in options.items() if option in pair.options})
    names = [output["name"] for output in pair.backward.outputs]
    made = dict(zip(names, made if len(names) > 1 else (made,)))
    direction = {n: normal(*inputs[n].shape) for n in floats}
    slope = sum((made[pair.results[n]].astype(np.float64) * direction[n]).sum() for n in floats)
    size = sum((made[pair.results[n]].astype(np.float64) ** 2).sum() for n in floats) ** 0.5

    def value(step):
        moved = call({n: array + np.float32(step) * direction[n] if n in floats else array for n, array in inputs.items()})
        return sum((moved[n].astype(np.float64) * weights[n]).sum() for n in wanted if weights[n] is not None)

    step = 1e-2
    difference = (value(step) - value(-step)) / (2 * step)
    assert abs(difference - slope) < 0.03 * size + 1e-3, (name, optional, difference, slope, size)


def test_gradients_of_every_pair():
    names = [name for name in sectile.operations() if f"{name}_backward" in sectile.operations()]
    assert names == [name for name in sectile.operations() if _gradients.pair(name)] and set(names) == set(CALLS)
    everything = os.environ.get("SECTILE_TEST_ALL") == "1"
    for number, name in enumerate(names):
        given = {False, any(argument["optional"] for argument in _functions.operation(name).all_inputs)}
        for optional in given if everything else {sorted(given)[number % len(given)]}:
            check_pair(name, optional)


def test_devices():
    names = [device.name for device in sectile.devices()]
    assert "virtual:sm_90a" in names, names
    assert all(device.target for device in sectile.devices())


def test_cache():
    os.environ["SECTILE_CACHE_DIR"] = os.getcwd()
    before = sectile.cache.list()
    assert before["folder"].startswith(os.getcwd()), before["folder"]
    assert before["kernels"] == [], before
    sectile.cache.clear()
    raises(sectile.InvalidError, sectile.cache.take_over, "none", says="none")
    del os.environ["SECTILE_CACHE_DIR"]


def test_tuning():
    os.environ["SECTILE_CACHE_DIR"] = os.getcwd()
    measured = sectile.tune("softmax", shape={"N": 64, "...": 4}, dtype="f16", device="virtual:sm_80", candidates=2)
    assert "softmax" in str(measured), measured
    assert "softmax" in str(sectile.cache.list("softmax"))
    raises(sectile.InvalidError, sectile.tune, "softmax", shape={"M": 64}, says="M")
    del os.environ["SECTILE_CACHE_DIR"]


def test_bundles():
    for target in ("sm_80", "gfx942"):
        sectile.bundle.build(f"{target}.sectile", "softmax", [target], shape={"N": 128}, dtype="f16")
    sectile.bundle.merge("all.sectile", "sm_80.sectile", "gfx942.sectile")
    sectile.bundle.verify("all.sectile")
    assert "gfx942" in str(sectile.bundle.show("all.sectile")) and "softmax" in str(sectile.bundle.list("all.sectile"))
    sectile.bundle.strip("all.sectile", ["sm_80"], "one.sectile")
    assert "gfx942" not in str(sectile.bundle.list("one.sectile"))
    (described,) = sectile.bundle.describe("one.sectile")
    assert {code["target"] for kernel in described["kernels"] for code in kernel["codes"]} == {"sm_80"}, described
    assert sectile.bundle.describe() == []
    sectile.bundle.load("one.sectile")
    assert [bundle["name"] for bundle in sectile.bundle.describe()] == ["one.sectile"]
    raises(sectile.InvalidError, sectile.bundle.load, "none.sectile", says="none.sectile")
    with open("all.sectile", "r+b") as file:
        file.truncate(100)
    raises(sectile.InvalidError, sectile.bundle.verify, "all.sectile")


def test_signatures_and_the_stub_file_agree():
    with open(os.path.join(os.path.dirname(sectile.__file__), "__init__.pyi")) as file:
        functions = {node.name: node for node in ast.parse(file.read()).body if isinstance(node, ast.FunctionDef)}
    for name in sectile.operations():
        function = getattr(sectile, name)
        signature = inspect.signature(function)
        node = functions[name].args
        assert [argument.arg for argument in node.args + node.kwonlyargs] == list(signature.parameters), name
        defaults = [signature.parameters[argument.arg].default for argument in node.kwonlyargs]
        assert [ast.literal_eval(default) for default in node.kw_defaults] == defaults, name
        assert ast.get_docstring(functions[name]) == function.__doc__, name
        assert len(function.__doc__) > 40 and function.__name__ == name and function.__module__ == "sectile"


def test_prepared_calls():
    x = np.random.default_rng(0).standard_normal((5, 40), dtype=np.float32)
    call = sectile.prepare(sectile.softmax, x)

    def right(y, x):
        e = np.exp(x - x.max(-1, keepdims=True))
        np.testing.assert_allclose(y, e / e.sum(-1, keepdims=True), atol=1e-6)

    y = call()
    right(y, x)
    x += 1 + np.arange(40, dtype=np.float32)
    assert call() is y
    right(y, x)
    other, out = np.float32(3) * x, np.zeros_like(x)
    assert call(other, out=out) is out
    right(out, other)
    right(y, x)
    out.flags.writeable = False
    raises(ValueError, call, out=out, says="read-only")
    raises(TypeError, call, axis=1, says="no argument 'axis'")
    raises(TypeError, sectile.prepare, "softmax", memoryview(b"1234"), says="x is")
    one = sectile.prepare("activation", x, kind="si" + "lu")  # the text lives with the call
    np.testing.assert_allclose(one(), x / (1 + np.exp(-x)), rtol=1e-5, atol=1e-6)
    held = sys.getrefcount(x)
    calls = [sectile.prepare("softmax", x, out=np.empty_like(x)) for _ in range(50)]
    assert sys.getrefcount(x) > held
    del calls
    assert sys.getrefcount(x) == held


def test_libraries_of_kernels():
    raises(sectile.InvalidError, sectile.load, "none.so", says="none.so")
    raises(AttributeError, lambda: sectile.scale_rows)
    sectile.load(os.path.join(sys.argv[2], "bin/examples/libown_library.so"))
    assert "scale_rows" in sectile.operations() and "x" in inspect.signature(sectile.scale_rows).parameters


main({name: value for name, value in globals().items() if callable(value)})
