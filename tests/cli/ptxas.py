# What ptxas says of PTX, in the forms that a launch chooses from (runtime/PtxForms.h).
import re
import subprocess


def spilt_in(report):
    """The most bytes that a thread of a kernel stores."""
    return max(map(int, re.findall(r"(\d+) bytes spill stores", report)))


def report_on(file, target, program):
    """Of the file: as it is, or, where it spills more, with an index of threads that may be read again."""
    report = _report_on(file, target, program)
    if spilt_in(report):
        with open(file) as text:
            ptx = text.read()
        plain = f"{file}.plain"
        with open(plain, "w") as text:
            text.write(re.sub(r"and\.b32 (\S+), index, 1023;", r"mov.b32 \1, index;", ptx))
        report = min(report, _report_on(plain, target, program), key=spilt_in)
    return report


def _report_on(file, target, program):
    result = subprocess.run([program, "-arch", target, "-v", file, "-o", f"{file}.cubin"], capture_output=True, text=True)
    assert result.returncode == 0, (file, result.stderr)
    return result.stderr
