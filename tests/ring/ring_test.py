# Ring attention by several processes under mpirun, each on a virtual device of its own; with SECTILE_TEST_ALL four on an AMD
# chip, too.
import os
import subprocess
import sys
import tempfile

program, processes = sys.argv[1:]
cache = tempfile.TemporaryDirectory()  # one of them compiles, for all
environment = dict(os.environ, SECTILE_CACHE_DIR=cache.name, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
# Processes of one machine, more of them than cores: they give way while they wait.
options = ["--oversubscribe", "--mca", "btl", "self,vader,tcp", "--mca", "mpi_yield_when_idle", "1"]
for device in ("virtual:sm_80", "virtual:gfx942")[: 2 if processes == "4" and os.environ.get("SECTILE_TEST_ALL") else 1]:
    done = subprocess.run(
        ["mpirun", "-n", processes, *options, program, device, "mpi"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0 and f"{processes} processes on {device} and its like: ok" in done.stdout
