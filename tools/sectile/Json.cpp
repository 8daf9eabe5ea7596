// Rounding and printing JSON.
#include "tools/sectile/Json.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <vector>

namespace sectile::tool {
namespace {

// LLVM prints doubles with 17 digits, which turns 0.1 into 0.10000000000000001.
void write(std::string &out, const llvm::json::Value &value, unsigned indent) {
  const std::string inner(indent + 2, ' '), outer(indent, ' ');
  if (const auto *object = value.getAsObject()) {
    if (object->empty()) {
      out += "{}";
      return;
    }
    std::vector<const llvm::json::Object::value_type *> entries;
    for (const auto &entry : *object)
      entries.push_back(&entry);
    std::sort(entries.begin(), entries.end(),
              [](const auto *a, const auto *b) { return a->first.str() < b->first.str(); });
    out += "{";
    for (const auto *entry : entries) {
      out += entry == entries.front() ? "\n" : ",\n";
      out += inner + llvm::formatv("{0}", llvm::json::Value(entry->first.str())).str() + ": ";
      write(out, entry->second, indent + 2);
    }
    out += "\n" + outer + "}";
  } else if (const auto *array = value.getAsArray()) {
    if (array->empty()) {
      out += "[]";
      return;
    }
    out += "[";
    for (const llvm::json::Value &entry : *array) {
      out += &entry == &array->front() ? "\n" : ",\n";
      out += inner;
      write(out, entry, indent + 2);
    }
    out += "\n" + outer + "]";
  } else if (value.kind() == llvm::json::Value::Number && !value.getAsInteger() &&
             !value.getAsUINT64()) {
    const double number = *value.getAsNumber();
    char text[32];
    std::snprintf(text, sizeof text, "%.7g", number);
    out += std::isfinite(number) ? text : "null";
  } else {
    out += llvm::formatv("{0}", value).str();
  }
}

} // namespace

std::string jsonText(const llvm::json::Value &value) {
  std::string text;
  write(text, value, 0);
  return text + "\n";
}

void printJson(const llvm::json::Value &value) { std::cout << jsonText(value); }

} // namespace sectile::tool
