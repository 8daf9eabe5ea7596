# Installs the build into an empty folder, builds examples/find_package against it, runs that, and
# runs the installed program. install_test.py BUILD SOURCE COMPILER
import os
import subprocess
import sys
import tempfile

build, source, compiler = sys.argv[1:]


def run(*words):
    completed = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert completed.returncode == 0, (words, completed.stdout)
    return completed.stdout


with tempfile.TemporaryDirectory() as folder:
    prefix, project = os.path.join(folder, "prefix"), os.path.join(folder, "project")
    run("cmake", "--install", build, "--prefix", prefix)
    run("cmake", "-G", "Ninja", "-S", os.path.join(source, "examples/find_package"), "-B", project,
        f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}")
    run("cmake", "--build", project)
    output = run(os.path.join(project, "uses_sectile"))
    print(output)
    assert "axpy on" in output and output.endswith("ok\n"), output
    assert run(os.path.join(prefix, "bin/sectile"), "--version").startswith("sectile ")
    # Nothing installed names the machine it was built on.
    for root, _, names in os.walk(prefix):
        for name in names:
            if name.endswith((".h", ".cmake")):
                with open(os.path.join(root, name)) as file:
                    text = file.read()
                assert source not in text and build not in text, name
