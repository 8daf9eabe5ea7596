# expect_error.py itself: it must fail where a file compiles, or fails for another reason.
import os
import sys
import tempfile

from expect_error import main

cases = [
    ("// expect: undeclared|not declared\nint x = y;\n", None),
    ("// expect: cannot convert\nint x = y;\n", "no error matches"),
    ("// expect: anything\nint x = 1;\n", "compiles, but must not"),
    ("int x = y;\n", "has no '// expect"),
    ("// expect: undeclared|not declared\n// only: .y.\nint x = y;\n", None),
    ("// expect: undeclared|not declared\n// only: .y.\nint x = y + z;\n", "another error than"),
    ("// expect: undeclared|not\n// declared\nint x = y;\n", "goes on in the next line"),
]
with tempfile.TemporaryDirectory(prefix="only y in the path ") as folder:
    for number, (text, reason) in enumerate(cases):
        path = os.path.join(folder, f"case{number}.cpp")
        with open(path, "w") as file:
            file.write(text)
        answer = main(path, [sys.argv[1], "-fsyntax-only"])
        assert (answer is None) if reason is None else (answer and reason in answer), (text, answer)
