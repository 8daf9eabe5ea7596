// Arguments and options written as rows of text.
#include "kernels/registry/Registry.h"
#include <algorithm>
#include <cctype>
#include <sectile/error.h>

using namespace sectile;

namespace {

// Takes a row apart from left to right.
class RowReader {
public:
  RowReader(const KernelSpec &kernel, const std::string &row)
      : kernel(kernel), row(row), rest(row) {}

  [[noreturn]] void fail(const std::string &what) const {
    throw InputError(kernel.name + ": row '" + row + "': " + what +
                     (rest.empty() ? " at the end" : " before '" + std::string(rest) + "'"));
  }

  bool isAtEnd() const { return rest.empty(); }

  bool take(std::string_view token) {
    if (!rest.starts_with(token))
      return false;
    skip(token.size());
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token))
      fail("'" + std::string(token) + "' is missing");
  }

  // All up to one of these characters; `what` is for messages.
  std::string until(std::string_view ends, const char *what) {
    std::string_view text = rest.substr(0, rest.find_first_of(ends));
    const std::size_t size = text.size();
    while (text.ends_with(' '))
      text.remove_suffix(1);
    if (text.empty())
      fail(std::string(what) + " is missing");
    std::string result(text);
    skip(size);
    return result;
  }

  std::vector<std::string> list(char separator, std::string_view ends, const char *what) {
    std::vector<std::string> items;
    do
      items.push_back(until(std::string(ends) + separator, what));
    while (take(std::string_view(&separator, 1)));
    return items;
  }

private:
  void skip(std::size_t count) {
    rest.remove_prefix(count);
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  }

  const KernelSpec &kernel;
  const std::string &row;
  std::string_view rest;
};

std::vector<DType> dtypes(RowReader &reader) {
  std::vector<DType> result;
  for (const std::string &name : reader.list('|', " ", "a dtype"))
    if (const std::optional<DType> dtype = parseDType(name))
      result.push_back(*dtype);
    else
      reader.fail("'" + name + "' is no dtype, and not `like`, `over`, `updates` or `with`");
  return result;
}

ArgumentSpec parse(const KernelSpec &kernel, const ArgumentRow &row) {
  RowReader reader(kernel, row.text);
  ArgumentSpec spec{.axes = {}};
  spec.output = reader.take("->");
  spec.name = reader.until("?: ", "the argument's name");
  spec.optional = reader.take("?");
  reader.expect(":");
  reader.expect("[");
  if (!reader.take("]")) {
    spec.axes = reader.list(',', "]", "an axis");
    reader.expect("]");
  }
  spec.doc = row.doc;
  spec.stored = row.functions.stored;
  spec.dtype_by = row.functions.dtype_by;
  spec.sample = row.functions.sample;
  while (!reader.isAtEnd()) {
    if (reader.take("like ")) {
      spec.like = reader.until(" ", "an argument");
    } else if (reader.take("over ")) {
      spec.over = reader.list(',', " ", "an input");
    } else if (reader.take("updates ")) {
      spec.over = {reader.until(" ", "an input")};
      spec.updates = true;
    } else if (reader.take("with ")) {
      spec.with = reader.until(" ", "an input or a flag");
    } else if (reader.take("or ")) {
      spec.also = dtypes(reader);
    } else if (spec.dtypes.empty() && spec.like.empty()) {
      spec.dtypes = dtypes(reader);
    } else {
      reader.fail("`or`, `over`, `updates`, `with` or the end is expected");
    }
  }
  return spec;
}

OptionSpec parse(const KernelSpec &kernel, const OptionRow &row) {
  constexpr std::pair<const char *, OptionSpec::Kind> kinds[] = {{"flag", OptionSpec::flag},
                                                                 {"number", OptionSpec::number},
                                                                 {"integer", OptionSpec::integer},
                                                                 {"seed", OptionSpec::seed}};
  RowReader reader(kernel, row.text);
  OptionSpec spec{.name = reader.until(": ", "the option's name"),
                  .kind = OptionSpec::choice,
                  .initial = "",
                  .initial_by = row.initial_by,
                  .doc = row.doc};
  reader.expect(":");
  spec.choices = reader.list('|', " ", "the kind");
  if (spec.choices.size() == 1) {
    const auto *kind = std::find_if(std::begin(kinds), std::end(kinds), [&](const auto &one) {
      return one.first == spec.choices.front();
    });
    if (kind == std::end(kinds))
      reader.fail("'" + spec.choices.front() +
                  "' is not flag, number, integer, seed or choices as a|b");
    spec.kind = kind->second;
    spec.choices.clear();
  }
  if (reader.take("="))
    spec.initial = reader.until(" ", "the default");
  if (reader.take("from ")) {
    spec.least = reader.until(" ", "the least value");
    if (reader.take("to "))
      spec.most = reader.until(" ", "the largest value");
  }
  if (reader.take("e.g."))
    spec.samples = reader.list(',', " ", "a sample");
  if (!reader.isAtEnd())
    reader.fail("`= default`, `from least`, `to most`, `e.g. sample` or the end is expected");
  return spec;
}

} // namespace

void KernelSpec::add_arguments(const std::vector<ArgumentRow> &rows) {
  for (const ArgumentRow &row : rows)
    arguments.push_back(parse(*this, row));
}

void KernelSpec::add_gradients(const std::vector<std::string> &inputs) {
  for (const std::string &name : inputs) {
    const auto input = std::find_if(arguments.begin(), arguments.end(), [&](const auto &one) {
      return one.name == name && !one.output;
    });
    if (input == arguments.end())
      throw InputError(this->name + ": there is no input '" + name + "' to have a gradient");
    const bool isChoice = input->dtypes.size() > 1;
    arguments.push_back({.name = "d" + name,
                         .output = true,
                         .with = input->optional ? name : "",
                         .axes = input->axes,
                         .stored = input->stored,
                         .dtypes = isChoice ? std::vector<DType>() : input->dtypes,
                         .like = isChoice ? name : input->like,
                         .dtype_by = input->dtype_by,
                         .doc = "gradient of " + name});
  }
}

void KernelSpec::add_options(const std::vector<OptionRow> &rows) {
  for (const OptionRow &row : rows)
    options.push_back(parse(*this, row));
}
