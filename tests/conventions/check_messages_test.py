# That check_messages.py finds what it is for.
from check_messages import literals, messages, untested

SOURCE = r'''
void fail(Location where, const Twine &message) { throw message; }
void check(int n) {
  if (n < 0)
    fail(where, "a number below zero, " + Twine(n) +
                    ": write "
                    "sc::abs(x)");
  if (n > 9)
    fail(where, [&] { return "more than nine; " + text(n); }() + " is too much");
  fail(where, std::string(message)); // a text of the user's
}
'''
assert literals('"one " "two" + x + "th\\"ree"') == ["one two", 'th\\"ree'], literals('"one " "two" + x + "th\\"ree"')
found = list(messages(SOURCE, r"(?<!void )\bfail\("))
assert found == [
    (5, ["a number below zero, ", ": write sc::abs(x)"]),
    (9, ["more than nine; ", " is too much"]),
], found


def lines(*expected):
    return [line for _, line, _ in untested({"a.cpp": SOURCE}, r"(?<!void )\bfail\(", list(expected))]


assert lines() == [5, 9]
assert lines("kernel: more than nine; 12 is too much", "a number below zero, -1") == []
assert lines("below zero", "is too much") == [5, 9]  # too little to know them by
# What two messages have in common tells neither.
TWINS = 'fail("operands are [M, K], of one shape");\nfail("operands are [M, K], of one type");\n'
assert [line for _, line, _ in untested({"b.cpp": TWINS}, r"\bfail\(", ["operands are [M, K], of one type"])] == [1]
assert [line for _, line, _ in untested({"b.cpp": TWINS}, r"\bfail\(", ["operands are [M, K]"])] == [1, 2]
