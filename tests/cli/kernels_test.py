# Every kernel of the library by `sectile run --check`, from .npy files: the tests of all kernels_*_test.py,
# each of which can be started alone, and that no kernel of `sectile list` is missing among them. virtual:sm_90 has its turn
# with SECTILE_TEST_ALL=1. kernels_test.py SECTILE DEVICE
import json
import glob
import importlib
import os
import sys

import cli

if sys.argv[2] == "virtual:sm_90" and os.environ.get("SECTILE_TEST_ALL") != "1":
    print("skipped: virtual:sm_80 does what it does; it runs with SECTILE_TEST_ALL=1")
    sys.exit(77)

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
