// Programs of control flow as text.
#include "tests/fuzz/language/control/Program.h"

namespace sectile::fuzz::control {

static std::string text(const Expression &x) {
  std::string name = typeNames[x.type];
  if (x.op == Op::Variable)
    return name + "_" + std::to_string(x.number);
  if (x.op == Op::Constant)
    return (x.isLiteral ? "" : name + (x.isTile ? "[]" : "") + " ") +
           (isRealType(x.type) ? std::to_string(x.real) : std::to_string(x.number));
  std::string result = std::string(opNames[int(x.op)]) + "." + name + "(";
  for (const Expression &operand : x.operands)
    result += (&operand == x.operands.data() ? "" : ", ") + text(operand);
  return result + (x.body.empty() ? ")" : ", {\n" + text(x.body, "        ") + "        })");
}

std::string text(const std::vector<Statement> &body, const std::string &indent) {
  static constexpr const char *names[] = {"declare", "assign", "update", "swap",     "store",
                                          "branch",  "choose", "loop",   "unrolled", "while"};
  std::string result;
  for (const Statement &statement : body) {
    result += indent + names[int(statement.kind)] + " " + typeNames[statement.type] + "_" +
              std::to_string(statement.variable) + " " + std::to_string(statement.other) + " " +
              opNames[int(statement.op)];
    for (std::int64_t number : statement.numbers)
      result += " " + std::to_string(number);
    for (const Expression &operand : statement.operands)
      result += " | " + text(operand);
    result += "\n" + text(statement.condition, indent + "  ? ") +
              text(statement.body, indent + "  ") + text(statement.otherwise, indent + "  : ");
  }
  return result;
}

} // namespace sectile::fuzz::control
