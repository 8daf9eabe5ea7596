# Empty roots of Debian, for tests that install in them: skip(), run(), needs_roots(), inside().
import os
import shutil
import subprocess
import sys

SKIPPED = 77  # what ctest takes for "skipped"


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def run(*words, **options):
    completed = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    assert completed.returncode == 0, (words, completed.stdout[-4000:])
    return completed.stdout


def needs_roots(*programs):
    """Skips a test that is not wanted, or that cannot make roots or lacks one of these programs besides."""
    if os.environ.get("SECTILE_TEST_ALL") != "1":
        skip("only with SECTILE_TEST_ALL=1")
    if os.geteuid() != 0:
        skip("roots can be made by root only")
    for program in ["mmdebstrap", *programs]:
        if not shutil.which(program):
            skip(f"{program} is not installed")


def inside(root):
    """Words before a command that runs it in the root, with /proc, by which programs find themselves."""
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={root}/proc", "chroot", root]
