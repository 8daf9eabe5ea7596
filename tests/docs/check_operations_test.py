# That check_operations.py finds what it is for.
from check_operations import check, functions, rows

HEADER = """
#pragma once
// not_a_function(in a comment)
#define SECTILE_FUNCTION(name) \\
  template <class T> Tile<T> name(const Tile<T> &x) { return x; }
namespace sectile {
enum class Precision { tf32 };
namespace detail {
Value hidden(const Value &x);
inline int shown() { return inner(3); }
} // namespace detail
SECTILE_FUNCTION(exp)
template <class A, class B>
  requires detail::OneIsTraced<A, B>
auto add(const A &a, const B &b = {}, std::function<void(int)> f = [] { g(); }) {
  return detail::hidden(a);
}
struct View {
  int load(int i);
};
inline Tile<int> arange(Extent start) noexcept(noexcept(x(1)));
} // namespace sectile
"""
TABLE = """
| Triton's name | Sectile's | header | test |
| --- | --- | --- | --- |
| `exp`, `add` | `exp`, `add` | a.h | `t.cpp` Suite.One |
| `arange` | `arange` | a.h | `t.cpp` Suite.Two |
"""
TESTS = {"t.cpp": "TEST(Suite, One) {}\nTEST_P(Suite,\n  Two) {}"}

assert functions(HEADER) == {"exp", "add", "arange"}, functions(HEADER)
assert len(list(rows(TABLE))) == 2


def complaints(table=TABLE, header=HEADER, tests=TESTS, triton=("exp", "add", "arange")):
    return check(table, {"a.h": header}, tests, triton)


assert complaints() == [], complaints()
for change, word in (
    ({"table": TABLE.replace("`arange` | `arange`", "`range` | `arange`")}, "Triton's arange has no row"),
    ({"table": TABLE.replace("`exp`, `add` | a.h", "`exp` | a.h")}, "add has no row"),
    ({"header": HEADER.replace("} // namespace sectile", "int more();\n} // namespace sectile")}, "more has no row"),
    ({"table": TABLE.replace("`arange` | a.h", "`arange`, `nothing` | a.h")}, "a.h does not declare nothing"),
    ({"table": TABLE.replace("`arange` | a.h", "`arange` | b.h")}, "there is no header b.h"),
    ({"tests": {"t.cpp": "TEST(Suite, One) {}"}}, "t.cpp has no test Suite.Two"),
    ({"table": TABLE.replace("`t.cpp` Suite.Two", "somewhere")}, "a test is written"),
    ({"table": TABLE.replace("`t.cpp` Suite.Two", "`u.cpp` Suite.Two")}, "there is no tests/unit/u.cpp"),
):
    found = complaints(**change)
    assert any(word in complaint for complaint in found), (word, found)
