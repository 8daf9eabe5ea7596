# Sectile and torch in one process: torch's streams, its allocator, and its graphs. Skipped where there is no torch
# with a GPU.
import ctypes
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import script  # noqa: E402

try:
    import torch
except ImportError:
    torch = None
SKIPPED = 77  # ctest's word for it
if torch is None or not torch.cuda.is_available():
    print("there is no torch with a GPU here")
    sys.exit(SKIPPED)

calls = ctypes.CDLL(sys.argv[1])
for name in ("calls_softmax", "calls_sort", "calls_own_memory", "calls_set_allocator"):
    getattr(calls, name).restype = ctypes.c_char_p
ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_uint64)
kept = []  # functions that memory may come back to


def address(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


def current():
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


def call(name, *arguments):
    answer = getattr(calls, name)(*arguments)
    assert answer is None, answer.decode()


def sort(x, y, indices):
    call("calls_sort", current(), address(x), address(y), address(indices), ctypes.c_int64(x.numel()))


def test_work_goes_in_between_that_of_its_streams():
    stream = torch.cuda.Stream()
    x, y = torch.zeros(512, 4096, device="cuda"), torch.zeros(512, 4096, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for _ in range(20):  # so that the call is given before they are done
            x = x @ torch.eye(4096, device="cuda") + torch.randn(512, 4096, device="cuda")
        call("calls_softmax", current(), address(x), address(y), ctypes.c_int64(512), ctypes.c_int64(4096))
        twice = y * 2
    stream.synchronize()
    torch.testing.assert_close(twice, 2 * torch.softmax(x, 1))


def test_its_allocator_gives_memory():
    given, returned, total = [], [], ctypes.c_float()

    def allocate(size, stream):
        given.append(torch.cuda.caching_allocator_alloc(size, stream=stream or 0))
        return given[-1]

    def free(place):
        returned.append(place)
        torch.cuda.caching_allocator_delete(place)

    hook = ALLOCATE(allocate), FREE(free)
    kept.append(hook)
    call("calls_set_allocator", *hook)
    try:
        for count in (1000, 3_000_000, 1000):
            call("calls_own_memory", ctypes.c_int64(count), ctypes.byref(total))
            assert total.value == count
        assert len(given) >= 6, given  # the ones and the sum
    finally:
        call("calls_set_allocator", None, None)
    taken = len(given)
    call("calls_own_memory", ctypes.c_int64(10), ctypes.byref(total))
    assert total.value == 10 and len(given) == taken
    assert returned and set(returned) <= set(given)


def test_its_graphs_take_calls_and_run_after_larger_ones():
    small, large = 100_000, 4_000_000
    x, y = torch.randn(small, device="cuda"), torch.zeros(small, device="cuda")
    indices = torch.zeros(small, dtype=torch.int64, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        sort(x, y, indices)  # compiles and loads
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        doubled = x * 2
        sort(doubled, y, indices)
        y.add_(1)
    more = torch.randn(large, device="cuda")
    for _ in range(3):
        with torch.cuda.stream(stream):
            sort(more, torch.zeros_like(more), torch.zeros(large, dtype=torch.int64, device="cuda"))
        torch.cuda.synchronize()
        x.copy_(torch.randn(small, device="cuda"))
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(y, torch.sort(x * 2).values + 1)


def test_a_first_call_in_a_capture_is_refused():
    x = torch.randn(3, 77, device="cuda")
    y, graph = torch.zeros_like(x), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        answer = calls.calls_softmax(current(), address(x), address(y), ctypes.c_int64(3), ctypes.c_int64(77))
        y.fill_(1)
    assert b"capture" in (answer or b""), answer
    graph.replay()
    torch.cuda.synchronize()
    assert y.sum().item() == 231


script.main(globals())
