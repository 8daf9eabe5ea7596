# check_definitions.py itself: what two files define is found, what they may both have is not.
from check_definitions import check, definitions

first = """// a
#pragma once
namespace sectile {
struct Rows { int count() const { return 1; } };
enum class Order { up, down };
inline int half(int x) { return x / 2; }
template <class T, int N> constexpr T least(const Tile<T> &x, int by = N) { return x; }
template <class T> Kernel copy{"copy", [](View<T, 1> x) { use(x); }};
inline const Option block{"block: integer = 1"};
namespace detail { inline bool operator==(const Rows &a, const Rows &b) { return true; } }
} // namespace sectile
"""


def complaints(second, path="kernels/b/B.h"):
    return check({"kernels/a/A.h": first, path: "// b\n" + second})


def found(second, name):
    said = complaints(second)
    assert len(said) == 1 and name in said[0] and "kernels/a/A.h, kernels/b/B.h" in said[0], (second, said)


def fine(second):
    assert complaints(second) == [], complaints(second)


assert len(definitions(first)) == 7, definitions(first)
assert check({"kernels/a/A.h": first}) == []

found("namespace sectile { struct Rows { long n; }; }", "type sectile::Rows")
found("namespace sectile { enum Order : int { left }; }", "type sectile::Order")
found("namespace sectile {\ninline int half(int value) {\n  return value >> 1;\n}\n}", "function sectile::half(int)")
found("namespace sectile { constexpr int half(const int) { return 0; } }", "function sectile::half(int)")
found("using namespace sectile; inline int sectile::half(int x) { return x; }", "sectile::half(int)")
found(
    "namespace sectile { template <class Element, int Size> Element least(const Tile<Element> &y, int) { return y; } }",
    "template sectile::least(const Tile < $0 > &, int)",
)
found('namespace sectile { template <class U> Kernel copy{"other", [](View<U, 2> x) { x; }}; }', "variable sectile::copy")
found("namespace sectile { inline int block = 3; }", "variable sectile::block")
found("namespace sectile::detail { inline bool operator==(const Rows &, const Rows &) { return false; } }", "operator ==")

fine("namespace sectile { namespace { struct Rows {}; inline int half(int x) { return x; } } }")
fine("namespace sectile { struct Rows; enum class Order; inline int half(int x); }")
fine("namespace sectile { inline int half(double x) { return 1; } static inline int half(int x) { return 1; } }")
fine("namespace sectile { template <class T, int N> constexpr T least(const Tile<T> &x, int by = N); }")
fine("namespace sectile { int half(int x) { return 1; } }")  # two of these do not link
fine("namespace sectile { constexpr Option block{}; struct Other { struct Rows {}; inline int half(int x) { return 1; } }; }")
fine("namespace sectile::other { struct Rows {}; inline int half(int x) { return x; } }")
fine("// namespace sectile { struct Rows {}; }\nconst char *text = \"struct Rows {}; }}}\";")
fine("namespace sectile { template <class T> T least(const Tile<T> &x) { return x; } }")

# Two tests may define what they like; a test and the library may not.
assert complaints("namespace sectile { struct Rows {}; }", "tests/unit/b.cpp")
tests = {f"tests/unit/{name}.cpp": "// t\nnamespace sectile { struct Rows {}; }" for name in "ab"}
assert check(tests) == []
