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
    raises(TypeError, sectile.softmax, x, x, says="by place")
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


def test_bundles():
    for target in ("sm_80", "gfx942"):
        sectile.bundle.build(f"{target}.sectile", "softmax", [target], shape={"N": 128}, dtype="f16")
    sectile.bundle.merge("all.sectile", "sm_80.sectile", "gfx942.sectile")
    sectile.bundle.verify("all.sectile")
    assert "gfx942" in str(sectile.bundle.show("all.sectile")) and "softmax" in str(sectile.bundle.list("all.sectile"))
    sectile.bundle.strip("all.sectile", ["sm_80"], "one.sectile")
    assert "gfx942" not in str(sectile.bundle.list("one.sectile"))
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


main({name: value for name, value in globals().items() if callable(value)})
