# Compiles a file that must not compile: expect_error.py SOURCE COMPILER [OPTION...]
# Passes when the compiler refuses it with an error matching each `// expect: REGEX` of the file, and with no error that
# fails to match its `// only: REGEX`, if it has one.
import os
import re
import subprocess
import sys


def main(source, command):
    with open(source) as file:
        text = file.read()
    # A formatter that wraps the line would cut the pattern short, or swallow the next one.
    if wrapped := re.search(r"^// expect: .+\n// (?!expect: |only: ).*", text, re.M):
        return f"{source}: '// expect: REGEX' goes on in the next line:\n{wrapped[0]}"
    expected = re.findall(r"^// expect: (.+)", text, re.M)
    if not expected:
        return f"{source}: has no '// expect: REGEX' line"
    result = subprocess.run(command + [source], capture_output=True, text=True)
    if result.returncode == 0:
        return f"{source}: compiles, but must not"
    # Without the folder, whose name (a temporary one's, say) a pattern could match by chance.
    places = (line.partition("error:") for line in result.stderr.splitlines() if "error:" in line)
    errors = "\n".join(os.path.basename(place) + error + message for place, error, message in places)
    for pattern in expected:
        if not re.search(pattern.strip(), errors):
            return f"{source}: no error matches '{pattern}'. The compiler said:\n{result.stderr}"
    for pattern in re.findall(r"^// only: (.+)", text, re.M):
        if more := [line for line in errors.splitlines() if not re.search(pattern.strip(), line)]:
            return f"{source}: another error than '{pattern}': {more[0]}"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
