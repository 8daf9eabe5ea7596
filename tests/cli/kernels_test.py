# Every kernel of the library by `sectile run --check`, from .npy files: the tests of all kernels_*_test.py,
# each of which can be started alone, and that no kernel of `sectile list` is missing among them.
# kernels_test.py SECTILE DEVICE
import json
import glob
import importlib
import os

import cli

TESTS = {}
for path in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels_*_test.py"))):
    module = importlib.import_module(os.path.basename(path).removesuffix(".py"))
    for name, test in vars(module).items():
        if name.startswith("test_"):
            assert name not in TESTS, (name, path)
            TESTS[name] = test


def test_every_kernel_has_run():
    registered = {kernel["name"] for kernel in json.loads(cli.done("list", "--json").out)}
    assert len(registered) > 50, registered
    assert registered == cli.CHECKED, (registered - cli.CHECKED, cli.CHECKED - registered)


TESTS["test_every_kernel_has_run"] = test_every_kernel_has_run
cli.main(TESTS)
