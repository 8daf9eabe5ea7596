# `sectile compile` of real models' shapes with the default configurations, for the chips with the least shared memory.
# defaults_test.py SECTILE bench/kernels.txt
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from cli import done, main

WORDS = {"dtype": "--dtype", "with": "--with", "opt": "--opt", "config": "--config"}


def calls():
    """The lines of the file as arguments of `compile`."""
    with open(sys.argv[2]) as file:
        for line in file:
            kernel, *words = line.split("#")[0].split() or [""]
            arguments, shape, option = [kernel], [], None
            for word in words:
                if word in WORDS:
                    option = WORDS[word]
                elif option:
                    arguments += [option, word]
                else:
                    shape.append(word)
            if kernel:
                yield arguments + (["--shape", ",".join(shape)] if shape else [])


def every_call(target):
    # Shared memory is placed in `cta`: what LLVM makes of it afterwards takes most of the time.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda call: done("compile", *call, "--target", target, "--emit", "cta"), calls()))


def test_64_kib():
    every_call("gfx1100")


def test_99_kib():
    every_call("sm_120a")


if __name__ == "__main__":
    main(globals())
