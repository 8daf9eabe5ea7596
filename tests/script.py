# Runs the tests of a script: its functions test_..., for scripts that ctest starts one by one.
import os
import random
import sys
import tempfile
import time
import traceback


def main(tests):
    """Runs every function test_... of a module's globals(), each in an empty folder and with random numbers of its own."""
    failed = 0
    for name, test in tests.items():
        if not name.startswith("test_"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            random.seed(name)
            start = time.monotonic()
            try:
                test()
                print(f"ok      {name} ({time.monotonic() - start:.1f} s)", flush=True)
            except Exception:
                failed += 1
                print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
            os.chdir("/")
    sys.exit(1 if failed else 0)
