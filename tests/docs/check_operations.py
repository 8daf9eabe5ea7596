# docs/operations.md is the whole language: check_operations.py ROOT
# Every function that the public headers of the DSL offer is in the table; every header that a row
# names declares what the row says, every test exists; every operation of Triton's has its row.
import os
import re
import sys

# Headers of what the language stands on, not of operations.
OTHER = {"config.h", "error.h", "language.h", "signature.h", "types.h"}
# Functions that are no operations of kernels.
HELPERS = set()
# What stands before a parenthesis and is no function's name.
NO_NAMES = {"requires", "decltype", "noexcept", "alignas", "if", "for", "while", "switch"}
# C++'s own words.
CPP = {"bool", "float", "double", "static_assert", "^"}

# Triton's operations, by the names that a row's first column gives.
TRITON = """
int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64
float8e5 float8e4nv float8e4b8 float8e5b16 float8e4b15 fp4
program_id num_programs arange full zeros zeros_like cast bitcast broadcast broadcast_to expand_dims reshape permute
trans join split interleave cat squeeze flip ravel
load store cache eviction volatile descriptor.load descriptor.store descriptor.gather descriptor.scatter
descriptor.atomic
dot dot.batched tf32 tf32x3 ieee bf16x3 bf16x6 dot_scaled
reduce sum max min argmax argmin xor_sum associative_scan cumsum cumprod sort topk histogram gather map_elementwise
softmax sigmoid swizzle2d cdiv where
atomic_add atomic_max atomic_min atomic_and atomic_or atomic_xor atomic_xchg atomic_cas sem scope
exp exp2 log log2 sin cos sqrt sqrt_rn rsqrt abs div_rn erf floor ceil fma umulhi clamp minimum maximum tanh libdevice
philox rand randn randint rand4x randn4x randint4x
range num_stages loop_unroll_factor flatten warp_specialize disallow_acc_multi_buffer static_range while
multiple_of max_contiguous max_constancy assume
static_print static_assert device_print device_assert debug_barrier
inline_asm_elementwise extern_elementwise gdc_wait gdc_launch_dependents
""".split()


def strip_comments(text):
    return re.sub(r"/\*.*?\*/", "", re.sub(r"//[^\n]*", "", text), flags=re.S)


def functions(text):
    """Names of the functions declared in namespace sectile itself, by hand or by a macro."""
    text = strip_comments(text)
    names = set(re.findall(r"^SECTILE_\w*FUNCTION\((\w+)", text, re.M))
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*$|^SECTILE_\w+\([^\n]*$", "", text, flags=re.M)
    scopes, parens, statement = [], 0, ""
    for token in re.findall(r'"(?:\\.|[^"\\])*"|operator\s*(?:\(\)|\[\]|[^\s\w(]+)|\w+|\S', text):
        if token == "{" and not parens:
            named = re.search(r"\bnamespace ([\w ]*?)(?: :: )?(\w*) $", statement)
            scopes.append(named[2] if named else "")
            statement = ""
        elif token == "}" and not parens:
            if scopes:
                scopes.pop()
            statement = ""
        elif token == ";" and not parens:
            statement = ""
        else:
            if token == "(":
                found = re.search(r"(\w+) $", statement)
                if found and not parens and scopes == ["sectile"] and found[1] not in NO_NAMES:
                    if statement[: found.start()].strip() and " = " not in statement:
                        names.add(found[1])
                parens += 1
            parens -= token == ")"
            statement += token + " "
    return names


def rows(document):
    for line in document.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and cells[0] != "Triton's name" and not set(cells[0]) <= set("- "):
            yield cells


def spans(cell):
    return [span for span in re.findall(r"`([^`]+)`", cell)]


def check(document, headers, tests, triton):
    """headers, tests: name -> text. Returns complaints."""
    complaints = []
    listed, covered = set(), set()
    for theirs, ours, header, test in rows(document):
        covered |= set(spans(theirs))
        row = theirs + " | " + ours
        if header not in headers:
            complaints.append(f"{row}: there is no header {header}")
            continue
        for name in spans(ours):
            listed.add(name)
            last = name.split("::")[-1]
            if last not in strip_comments(headers[header]) and not name.startswith("std::") and last not in CPP:
                complaints.append(f"{row}: {header} does not declare {name}")
        found = re.fullmatch(r"`([^`]+)` (\w+)\.(\w+)", test)
        if not found:
            complaints.append(f"{row}: a test is written `file` Suite.Name, not {test}")
        elif found[1] not in tests:
            complaints.append(f"{row}: there is no tests/unit/{found[1]}")
        elif not re.search(rf"TEST(_P|_F)?\(\s*{found[2]},\s*{found[3]}\)", tests[found[1]]):
            complaints.append(f"{row}: {found[1]} has no test {found[2]}.{found[3]}")
    for header, text in headers.items():
        if header not in OTHER:
            for name in sorted(functions(text) - HELPERS - listed):
                complaints.append(f"{header}: {name} has no row in docs/operations.md")
    for name in triton:
        if name not in covered:
            complaints.append(f"Triton's {name} has no row in docs/operations.md")
    return complaints


def read_tree(folder, ending):
    texts = {}
    for path, _, names in os.walk(folder):
        for name in names:
            if name.endswith(ending):
                with open(os.path.join(path, name), encoding="utf-8") as file:
                    texts[os.path.relpath(os.path.join(path, name), folder)] = file.read()
    return texts


if __name__ == "__main__":
    root = sys.argv[1]
    with open(os.path.join(root, "docs/operations.md"), encoding="utf-8") as file:
        document = file.read()
    headers = read_tree(os.path.join(root, "dsl/include/sectile"), ".h")
    complaints = check(document, headers, read_tree(os.path.join(root, "tests/unit"), ".cpp"), TRITON)
    print(f"{len(list(rows(document)))} rows")
    if complaints:
        print("\n".join(complaints))
        sys.exit(1)
