# What a worker does: one peer of one row is made, compared with eager PyTorch, and timed.
import math
import os
import sys
import time
import traceback

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # there are as many workers as can compile

import torch
import torch._functorch.config as functorch_config

import against
import compare
import in_pytorch
from case import DEVICE, TRITON, Case, NoPeer

try:
    import triton

    import in_triton  # noqa: F401
except ImportError:
    triton = None

functorch_config.donated_buffer = False  # gradients are taken again and again
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True


class Wrong(Exception):
    """A peer that computes something else."""


class Clock:
    """Median microseconds of runs that find nothing of theirs in the L2 cache."""

    def __init__(self):
        l2 = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)
        self.flush = torch.empty(max(2 * l2, 64 << 20), device=DEVICE, dtype=torch.int8)
        self.elapsed(self.flush.zero_, 5, False)
        cycles = 1_000_000
        self.cycles_per_second = cycles / (1e-3 * self.elapsed(lambda: torch.cuda._sleep(cycles), 3, False))

    def head_start(self, work):
        """Seconds for the device to wait before a run, so that the host, which takes so long to start the work, is
        ahead of it: what counts is the device's time."""
        hosts = []
        for _ in range(5):
            begin = time.perf_counter()
            work()
            hosts.append(time.perf_counter() - begin)
            torch.cuda.synchronize()
        return 1.5 * max(hosts)

    def elapsed(self, work, runs, flushed):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(runs):
            if flushed:
                self.flush.zero_()
            work()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / runs

    def median(self, work, warmup_ms=25, total_ms=100):
        work()
        torch.cuda.synchronize()
        once = max(1e-3, self.elapsed(work, 5, False))
        self.elapsed(work, min(10000, max(5, math.ceil(warmup_ms / once))), False)
        once = max(1e-3, self.elapsed(work, 5, True))
        wait, longest = self.head_start(work), 1e-3
        while True:
            marks = []
            for _ in range(min(10000, max(5, math.ceil(total_ms / once)))):
                self.flush.zero_()
                torch.cuda._sleep(int(min(wait, longest) * self.cycles_per_second))
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                work()
                end.record()
                marks.append((start, end, not start.query()))
            torch.cuda.synchronize()
            # Runs that the device began only when the host had given it all.
            whole = [mark for mark in marks if mark[2]]
            if 2 * len(whole) > len(marks) or wait >= longest:
                break
            wait *= 2
        # Work that the host takes long over is measured as it is.
        times = sorted(1e3 * start.elapsed_time(end) for start, end, _ in (whole if len(whole) > 4 else marks))
        return times[len(times) // 2]


def named(names, results):
    return dict(zip(names, results if isinstance(results, (tuple, list)) else (results,)))


def eager_results(row):
    """What eager PyTorch makes of the same inputs; nothing where it has no such function."""
    try:
        run, names = in_pytorch.work(Case(row))
        return named(names, run())
    except NoPeer:
        return {}


def candidates(c, peer):
    """Things to call, of which the fastest counts, and the names of what they give."""
    if peer != "Triton":
        run, names = in_pytorch.work(c)
        return [run], names
    if triton is None or c.kernel not in TRITON:
        raise NoPeer("")
    return TRITON[c.kernel](c), list(c.outputs)


def too_large():
    """What Triton throws of a choice that this chip cannot run."""
    return (triton.runtime.errors.OutOfResources,) if triton else ()


def attempt(row, peer, clock):
    """Checks a peer, and times it if there is a clock: its time, or nothing, and remarks."""
    c = Case(row, compiled=peer == "torch.compile")
    runs, names = candidates(c, peer)
    expected = {} if peer == "eager" else eager_results(row)
    fit, unfit = [], None
    for run in runs:
        try:
            results = named(names, run())
        except too_large() as error:
            unfit = error
            continue
        if what := compare.problem(c, results, expected):
            raise Wrong(what)
        fit.append(run)
    if not fit:
        raise unfit
    del expected, results
    if clock is None:
        return None, c.remarks
    if len(fit) > 1:
        fit.sort(key=lambda run: clock.median(run, 2, 5))
    return clock.median(fit[0]), c.remarks


def answer(job, clock):
    """The answer to one job: `none` says why there is no such peer, `error` what went wrong, `broken` that this
    process is of no further use."""
    row, peer = job["row"], job["peer"]
    try:
        if peer == "Sectile":
            return {"time": None, "remarks": against.check(row, job["sectile"])}
        time, remarks = attempt(row, peer, clock if job["timed"] else None)
        return {"time": time, "remarks": remarks}
    except NoPeer as why:
        return {"none": str(why)}
    except torch.cuda.OutOfMemoryError:
        return {"error": "out of memory"}
    except (Wrong, against.Different) as error:
        return {"error": f"computes something else: {error}"}
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        first = (str(error).strip().splitlines() or [""])[0]
        return {"error": f"{type(error).__name__}: {first}", "broken": "CUDA error" in str(error)}
    finally:
        if DEVICE == "cuda":
            torch.cuda.empty_cache()


def serve(connection, timed):
    """A worker's whole life."""
    name = torch.cuda.get_device_name(0) if DEVICE == "cuda" else "CPU"
    versions = f"PyTorch {torch.__version__}" + (f", Triton {triton.__version__}" if triton else "")
    connection.send({"device": DEVICE, "name": f"{name}; {versions}"})
    clock = Clock() if timed and DEVICE == "cuda" else None
    if DEVICE == "cpu":
        torch.set_num_threads(1)
    while (job := connection.recv()) is not None:
        result = answer(job, clock)
        connection.send(result)
        if result.get("broken"):
            break
