# `sectile run --device interpreter` with SECTILE_BREAK and SECTILE_TRAP: stopping at a line, the first NaN.
import math
import os
import re

from cli import done, main, sectile, write_npy

KERNEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../kernels/norm/Softmax.cpp")
RUN = ("run", "softmax", "--in", "x=x.npy", "--out", "y=y.npy", "--device", "interpreter", "--config", "rows=1")


def line_of(pattern):
    with open(KERNEL) as file:
        return next(i for i, text in enumerate(file, 1) if re.search(pattern, text))


def test_stops_at_a_line():
    write_npy("x.npy", "<f4", (2, 3), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    line = line_of(r"expand\(max\(values")
    result = done(*RUN, env={"SECTILE_BREAK": f"/Softmax.cpp:{line}"})
    for program in range(2):
        assert f"Softmax.cpp:{line}, kernel softmax, program ({program}, 0, 0)\n" in result.err, result.err
    for largest in (3, 6):
        assert f"\nreduce: f32[1]\n  [0]  {largest}\n" in result.err, result.err
    assert done(*RUN).err == ""


def test_traps_the_first_nan():
    write_npy("x.npy", "<f4", (1, 2), [math.inf, 0.0])
    done(*RUN)  # NaN is what softmax gives here
    result = sectile(*RUN, env={"SECTILE_TRAP": "nan"})
    assert result.status == 1, result.err
    assert re.search(r"Softmax\.cpp:\d+, program \(0,0,0\).*: not a number: subf of inf and inf gives NaN", result.err), (
        result.err
    )


main(globals())
