# docs/operations.md is the whole language: check_operations.py ROOT
# Every function that the public headers of the DSL offer is in the table; every header that a row
# names declares what the row says; every operation of Triton's has its row. Every test is built,
# uses what the row says, and runs on the interpreter and the virtual GPUs of DEVICES. Every function
# is misused in a test of errors.
import os
import re
import sys

# Headers of what the language stands on, not of operations.
OTHER = {"config.h", "error.h", "fields.h", "host_functions.h", "language.h", "signature.h", "struct.h", "types.h"}
# Functions that are no operations of kernels.
HELPERS = {"trust_host_variables"}
# What stands before a parenthesis and is no function's name.
NO_NAMES = {"requires", "decltype", "noexcept", "alignas", "if", "for", "while", "switch"}
# What every row's test runs on, at least.
DEVICES = ("interpreter", "virtual:sm_80", "virtual:sm_90a")
# Tests of errors, under tests/.
ERRORS = r"unit/dsl_(functions|\w*errors)_test\.cpp|compile_fail/\w+\.cpp"
# C++'s own words.
CPP = {"bool", "float", "double", "static_assert", "^"}

# Triton's operations, by the names that a row's first column gives.
TRITON = """
int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64
float8e5 float8e4nv float8e4b8 float8e5b16 float8e4b15 fp4
program_id num_programs arange full zeros zeros_like cast bitcast broadcast broadcast_to expand_dims reshape permute
trans join split interleave cat squeeze flip ravel
load store mask other cache .ca .cg .cs .cv .wb .wt eviction volatile
descriptor.load descriptor.store descriptor.gather descriptor.scatter
descriptor.atomic
dot dot.batched tf32 tf32x3 ieee bf16x3 bf16x6 dot_scaled
reduce sum max min return_indices argmax argmin tie_break_left xor_sum
associative_scan reverse cumsum cumprod sort topk histogram gather map_elementwise
softmax sigmoid swizzle2d cdiv where
atomic_add atomic_max atomic_min atomic_and atomic_or atomic_xor atomic_xchg atomic_cas sem scope
exp exp2 log log2 sin cos sqrt sqrt_rn rsqrt abs div_rn erf floor ceil fma umulhi clamp minimum maximum propagate_nan tanh
libdevice
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
    text = re.sub(r'__attribute__\(\(\w+\((?:\s*"(?:\\.|[^"\\])*")*\s*\)\)\)', "", text)
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


def devices_of(suite, text, usual):
    """The devices that the suite is instantiated over: named here, or the usual ones."""
    found = re.search(
        rf"SECTILE_ON_DEVICES\({suite}()\)|SECTILE_INSTANTIATE_ON\({suite},([^;]*)\);"
        rf"|INSTANTIATE_TEST_SUITE_P\(\w+, {suite},\s*testing::ValuesIn\(sectile::test::devices\(([^)]*)\)\)",
        text,
    )
    if not found:
        return []
    named = "".join(re.findall(r'"([^"]*)"', "".join(filter(None, found.groups()))))
    return (named or usual).split(",")


def definitions(text):
    """What a file defines at its top: (names, text) of each."""
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', strip_comments(text))
    part, depth = "", 0
    for line in [*text.splitlines(), ""]:
        if re.match(r"namespace .*{$|#(include|pragma)", line):
            continue
        depth += line.count("{") - line.count("}")
        part += line + "\n"
        ends = line.endswith((";", "}")) or not line or part.startswith("#") and not line.endswith("\\")
        if depth <= 0 and ends:
            head = part.split("{")[0] + "{"
            yield set(re.findall(r"#define (\w+)", part) + re.findall(r"(\w+)\s*[({=]", head)), part
            part, depth = "", 0


def used_by(suite, name, text):
    """The words of a test, and of all that it uses of its file."""
    parts = [(names - {"TEST", "TEST_F", "TEST_P"}, part) for names, part in definitions(text)]
    ahead = [part for _, part in parts if re.match(rf"TEST(_P|_F)?\(\s*{suite},\s*{name}\)", part)]
    used = set()
    while ahead:
        words = set(re.findall(r"\w+|[^\w\s]", ahead.pop())) - used
        used |= words
        ahead += [part for names, part in parts if names & words]
    return used


def check_test(suite, name, text, usual):
    """What keeps a test from being one of a row, and what it uses."""
    declared = re.search(rf"TEST(?:_P|_F)?\(\s*{suite},\s*{name}\)", text)
    if not declared:
        return [f"there is no test {suite}.{name}"], set()
    complaints = []
    missing = sorted(set(DEVICES) - set(devices_of(suite, text, usual)))
    if missing or not declared[0].startswith("TEST_P"):
        complaints.append(f"{suite}.{name} does not run on {', '.join(missing or DEVICES)}")
    used = used_by(suite, name, text)
    if "GTEST_SKIP" in used:
        complaints.append(f"{suite}.{name} is skipped somewhere")
    return complaints, used


def check(document, headers, tests, triton, usual, built, errors):
    """headers, tests: name -> text; usual: the devices of tests that name none; built: the text that
    says which tests are; errors: that of the tests of errors. Returns complaints."""
    complaints = []
    listed, covered, misused = set(), set(), set(re.findall(r"(\w+)\s*[(<]", strip_comments(errors)))
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
        found = re.fullmatch(r"`([^`]+)` (\w+\.\w+(?:, \w+\.\w+)*)", test)
        if not found:
            complaints.append(f"{row}: a test is written `file` Suite.Name, not {test}")
            continue
        file = found[1]
        if file not in tests:
            complaints.append(f"{row}: there is no tests/unit/{file}")
            continue
        if f"unit/{file}" not in built:
            complaints.append(f"{row}: tests/unit/{file} is not built")
        used = set()
        for name in found[2].split(", "):
            wrong, words = check_test(*name.split("."), tests[file], usual)
            complaints += [f"{row}: {file}: {complaint}" for complaint in wrong]
            used |= words
        for name in spans(ours):
            if name.split("::")[-1] not in used:
                complaints.append(f"{row}: {file}: {found[2]} does not use {name}")
    for header, text in headers.items():
        if header not in OTHER:
            for name in sorted(functions(text) - HELPERS - listed):
                complaints.append(f"{header}: {name} has no row in docs/operations.md")
            for name in sorted(functions(text) - HELPERS - misused):
                complaints.append(f"{header}: no test of errors misuses {name}")
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


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    root = sys.argv[1]
    document = read(root, "docs/operations.md")
    headers = read_tree(os.path.join(root, "dsl/include/sectile"), ".h")
    tests = read_tree(os.path.join(root, "tests/unit"), ".cpp")
    usual = re.search(r'usual = "([^"]*)"', read(root, "tests/unit/ops/Devices.h"))[1]
    built = read(root, "tests/CMakeLists.txt")
    everything = read_tree(os.path.join(root, "tests"), ".cpp")
    errors = [text for name, text in everything.items() if re.fullmatch(ERRORS, name)]
    complaints = check(document, headers, tests, TRITON, usual, built, "\n".join(errors))
    print(f"{len(list(rows(document)))} rows")
    if complaints:
        print("\n".join(complaints))
        sys.exit(1)
