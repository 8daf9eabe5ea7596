# That check_operations.py finds what it is for.
from check_operations import check, devices_of, functions, rows, used_by

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
TESTS = {
    "t.cpp": """
namespace {
#define APPLY(x) \\
  helper(x)
const auto sum = [](auto x) { return add(x, 1); };
template <class T = int>
void helper(const T &x = {}) {
  sum(exp(x)); // not unused() of a comment
}
struct Unused {
  int unused;
};
SECTILE_ON_DEVICES(Suite);
TEST_P(Suite, One) { APPLY("unused"); }
TEST_P(Suite,
  Two) {
  arange(0);
}

TEST_P(Suite, Three) {
  unused();
  GTEST_SKIP();
}
TEST(Plain, One) { arange(1); }
SECTILE_INSTANTIATE_ON(Few, "interpreter,"
                            "virtual:sm_80");
TEST_P(Few, One) { arange(1); }
INSTANTIATE_TEST_SUITE_P(Devices, Own, testing::ValuesIn(sectile::test::devices()),
                         sectile::test::testName);
} // namespace
"""
}
ERRORS = "EXPECT_FAULT(exp(add<int>(1)), arange(0)); // hidden()"
USUAL = "interpreter,virtual:sm_80,virtual:sm_90a,virtual:gfx942"

assert functions(HEADER) == {"exp", "add", "arange"}, functions(HEADER)
assert len(list(rows(TABLE))) == 2


assert devices_of("Suite", TESTS["t.cpp"], USUAL) == devices_of("Own", TESTS["t.cpp"], USUAL) == USUAL.split(",")
assert devices_of("Few", TESTS["t.cpp"], USUAL) == ["interpreter", "virtual:sm_80"]
assert devices_of("Plain", TESTS["t.cpp"], USUAL) == []
used = used_by("Suite", "One", TESTS["t.cpp"])
assert {"APPLY", "helper", "sum", "add", "exp"} <= used and "unused" not in used and "arange" not in used, used


NAMES = ("exp", "add", "arange")


def complaints(table=TABLE, header=HEADER, tests=TESTS, triton=NAMES, built="x(unit/t.cpp)", errors=ERRORS):
    return check(table, {"a.h": header}, tests, triton, USUAL, built, errors)


assert complaints() == [], complaints()
for change, word in (
    ({"table": TABLE.replace("`arange` | `arange`", "`range` | `arange`")}, "Triton's arange has no row"),
    ({"table": TABLE.replace("`exp`, `add` | a.h", "`exp` | a.h")}, "add has no row"),
    ({"header": HEADER.replace("} // namespace sectile", "int more();\n} // namespace sectile")}, "more has no row"),
    ({"table": TABLE.replace("`arange` | a.h", "`arange`, `nothing` | a.h")}, "a.h does not declare nothing"),
    ({"table": TABLE.replace("`arange` | a.h", "`arange` | b.h")}, "there is no header b.h"),
    ({"table": TABLE.replace("Suite.Two", "Suite.Four")}, "there is no test Suite.Four"),
    ({"table": TABLE.replace("Suite.Two", "Suite.One")}, "Suite.One does not use arange"),
    ({"table": TABLE.replace("Suite.Two", "Suite.Two, Suite.Four")}, "there is no test Suite.Four"),
    ({"table": TABLE.replace("Suite.Two", "Suite.Two, Suite.Three")}, "Suite.Three is skipped"),
    ({"table": TABLE.replace("Suite.Two", "Plain.One")}, "Plain.One does not run on interpreter, virtual:sm_80, "),
    ({"table": TABLE.replace("Suite.Two", "Few.One")}, "Few.One does not run on virtual:sm_90a"),
    ({"errors": "exp(1) + add(2); // arange(3)"}, "no test of errors misuses arange"),
    ({"built": "unit/s.cpp"}, "tests/unit/t.cpp is not built"),
    ({"table": TABLE.replace("`t.cpp` Suite.Two", "somewhere")}, "a test is written"),
    ({"table": TABLE.replace("`t.cpp` Suite.Two", "`u.cpp` Suite.Two")}, "there is no tests/unit/u.cpp"),
):
    found = complaints(**change)
    assert any(word in complaint for complaint in found), (word, found)
assert complaints(table=TABLE.replace("Suite.Two", "Suite.Two, Suite.One")) == []
