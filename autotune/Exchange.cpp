// Reading is strict: a field that is missing, unknown, of the wrong type or out of range refuses
// the file, since half an understanding of it would choose wrong configurations silently.
#include "autotune/Exchange.h"
#include "runtime/Numerals.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <limits>
#include <set>

namespace sectile::autotune {
namespace {

constexpr llvm::StringLiteral format = "sectile measurements";
constexpr int64_t version = 2; ///< 1 knows no numerics

// One object of the file; every field is asked for once, and those that nobody asked for are wrong.
class Fields {
public:
  Fields(const llvm::json::Value &value, const std::string &where)
      : object(value.getAsObject()), where(where) {
    if (!object)
      wrong("", "is not an object");
  }

  std::string text(llvm::StringRef name) {
    const llvm::json::Value *value = get(name);
    const std::optional<llvm::StringRef> text = value ? value->getAsString() : std::nullopt;
    if (value && !text)
      wrong(name, "is not a string");
    return text.value_or("").str();
  }
  int64_t integer(llvm::StringRef name, int64_t most = std::numeric_limits<int64_t>::max()) {
    const llvm::json::Value *value = get(name);
    const std::optional<int64_t> number = value ? value->getAsInteger() : std::nullopt;
    if (value && (!number || *number < 0 || *number > most))
      wrong(name, "is not a whole number from 0 to " + std::to_string(most));
    return number.value_or(0);
  }
  unsigned small(llvm::StringRef name) {
    return static_cast<unsigned>(integer(name, std::numeric_limits<unsigned>::max()));
  }
  double number(llvm::StringRef name) {
    const llvm::json::Value *value = get(name);
    const std::optional<double> number = value ? value->getAsNumber() : std::nullopt;
    if (value && (!number || !std::isfinite(*number) || *number < 0))
      wrong(name, "is not a number from 0 on");
    return number.value_or(0);
  }
  const llvm::json::Array &array(llvm::StringRef name) {
    static const llvm::json::Array none;
    const llvm::json::Value *value = get(name);
    if (value && !value->getAsArray())
      wrong(name, "is not an array");
    return value && value->getAsArray() ? *value->getAsArray() : none;
  }
  void wrong(llvm::StringRef name, const std::string &how) {
    if (fault.empty())
      fault = where + (name.empty() ? "" : "." + name.str()) + " " + how;
  }
  // What is wrong with it, in words, once all its fields have been asked for.
  std::string end() {
    if (object)
      for (const auto &[name, value] : *object)
        if (!asked.contains(name.str()))
          wrong(name, "is not known");
    return fault;
  }

private:
  const llvm::json::Value *get(llvm::StringRef name) {
    asked.insert(name.str());
    const llvm::json::Value *value = object ? object->get(name) : nullptr;
    if (!value)
      wrong(name, "is missing");
    return value;
  }

  const llvm::json::Object *object;
  std::string where, fault;
  std::set<std::string> asked;
};

std::string indexed(const std::string &where, size_t index) {
  return where + "[" + std::to_string(index) + "]";
}

std::string readMeasurement(const llvm::json::Value &value, const std::string &where, int64_t given,
                            Measurement &m) {
  Fields fields(value, where);
  m.config = fields.text("config");
  const std::optional<Verdict> verdict = parseVerdict(fields.text("verdict"));
  if (!verdict)
    fields.wrong("verdict", "is not known");
  m.verdict = verdict.value_or(Verdict::Failed);
  m.message = fields.text("message");
  m.median = fields.number("median_us");
  m.spread = fields.number("spread_us");
  m.runs = fields.small("runs");
  m.compileMilliseconds = fields.number("compile_ms");
  m.registers = fields.small("registers");
  m.spillBytes = fields.small("spill_bytes");
  m.sharedBytes = fields.small("shared_bytes");
  m.irHash = fields.text("ir");
  if (given > 1)
    m.numerics = fields.text("numerics");
  m.toolchain.compiler = fields.text("compiler");
  m.toolchain.driver = fields.text("driver");
  m.when = fields.integer("time");
  return fields.end();
}

std::string readShape(const llvm::json::Array &extents, const std::string &where, ShapeKey &shape) {
  for (size_t i = 0; i < extents.size(); ++i) {
    Fields fields(extents[i], indexed(where, i));
    shape.emplace_back(fields.text("name"), fields.integer("extent"));
    if (std::string fault = fields.end(); !fault.empty())
      return fault;
    for (size_t j = 0; j < i; ++j)
      if (shape[j].first == shape[i].first)
        return indexed(where, i) + ".name is there twice";
  }
  return "";
}

std::string readProblem(const llvm::json::Value &value, const std::string &where, int64_t given,
                        Problem &problem) {
  Fields fields(value, where);
  problem.key.kernel = fields.text("kernel");
  problem.key.code = fields.text("code");
  problem.key.device = fields.text("device");
  problem.key.dtypes = fields.text("dtypes");
  const llvm::json::Array &shape = fields.array("shape");
  const llvm::json::Array &measurements = fields.array("measurements");
  std::string fault = fields.end();
  if (fault.empty())
    fault = readShape(shape, where + ".shape", problem.key.shape);
  std::set<std::string> configs;
  for (size_t i = 0; i < measurements.size() && fault.empty(); ++i) {
    const std::string here = indexed(where + ".measurements", i);
    fault = readMeasurement(measurements[i], here, given, problem.measurements.emplace_back());
    if (fault.empty() && !configs.insert(problem.measurements.back().config).second)
      fault = here + ".config is there twice";
  }
  return fault;
}

// LLVM's parser goes as deep as the text does, with the stack. The format needs five levels.
bool isTooDeep(std::string_view text) {
  constexpr int deepest = 16;
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inString) {
      i += c == '\\';
      inString = c != '"';
    } else if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      if (++depth > deepest)
        return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

llvm::Error refused(const std::string &why) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), "%s", why.c_str());
}

} // namespace

llvm::json::Value jsonOf(const Problem &problem) {
  llvm::json::Array shape, measurements;
  for (const auto &[name, extent] : problem.key.shape)
    shape.push_back(llvm::json::Object{{"name", name}, {"extent", extent}});
  for (const Measurement &m : problem.measurements)
    measurements.push_back(llvm::json::Object{{"config", m.config},
                                              {"verdict", std::string(name(m.verdict))},
                                              {"message", m.message},
                                              {"median_us", m.median},
                                              {"spread_us", m.spread},
                                              {"runs", m.runs},
                                              {"compile_ms", m.compileMilliseconds},
                                              {"registers", m.registers},
                                              {"spill_bytes", m.spillBytes},
                                              {"shared_bytes", m.sharedBytes},
                                              {"ir", m.irHash},
                                              {"numerics", m.numerics},
                                              {"compiler", m.toolchain.compiler},
                                              {"driver", m.toolchain.driver},
                                              {"time", m.when}});
  return llvm::json::Object{
      {"kernel", problem.key.kernel}, {"code", problem.key.code},
      {"device", problem.key.device}, {"dtypes", problem.key.dtypes},
      {"shape", std::move(shape)},    {"measurements", std::move(measurements)}};
}

std::string toJson(const std::vector<Problem> &problems) {
  const runtime::PlainNumerals plain;
  llvm::json::Array array;
  for (const Problem &problem : problems)
    array.push_back(jsonOf(problem));
  return llvm::formatv("{0:1}\n",
                       llvm::json::Value(llvm::json::Object{{"format", format},
                                                            {"version", version},
                                                            {"problems", std::move(array)}}))
      .str();
}

llvm::Expected<std::vector<Problem>> fromJson(std::string_view text) {
  const runtime::PlainNumerals plain;
  if (isTooDeep(text))
    return refused("the file is nested too deeply");
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(llvm::StringRef(text));
  if (!value)
    return value.takeError();
  std::vector<Problem> problems;
  std::string fault;
  Fields fields(*value, "the file");
  if (fields.text("format") != format)
    fields.wrong("format", "is not '" + format.str() + "'");
  const int64_t given = fields.integer("version");
  if (given < 1 || given > version)
    fields.wrong("version", "is neither 1 nor " + std::to_string(version));
  const llvm::json::Array &array = fields.array("problems");
  fault = fields.end();
  for (size_t i = 0; i < array.size() && fault.empty(); ++i)
    fault = readProblem(array[i], indexed("problems", i), given, problems.emplace_back());
  if (!fault.empty())
    return refused(fault);
  return problems;
}

std::vector<Problem> ownProblems(std::string_view kernel) {
  std::vector<Problem> own;
  for (Problem &problem : Database::get().problems(kernel))
    if (problem.origin == Database::get().file())
      own.push_back(std::move(problem));
  return own;
}

llvm::json::Value jsonOf(const TuneReport &report, bool isSimulated) {
  llvm::json::Array rows;
  llvm::json::Object shape;
  for (const auto &[name, extent] : report.bucket)
    shape[name] = extent;
  for (const TuneReport::Row &row : report.rows)
    rows.push_back(llvm::json::Object{{"config", row.config},
                                      {"numerics", row.numerics},
                                      {"verdict", std::string(name_of(row.verdict))},
                                      {"message", row.message},
                                      {"median_us", row.microseconds},
                                      {"spread_us", row.spread},
                                      {"runs", row.runs},
                                      {"compile_ms", row.compile_milliseconds},
                                      {"registers", row.registers},
                                      {"spill_bytes", row.spill_bytes},
                                      {"shared_bytes", row.shared_bytes},
                                      {"known", row.known}});
  llvm::json::Object object{{"kernel", report.kernel},       {"device", report.device},
                            {"simulated", isSimulated},      {"shape", std::move(shape)},
                            {"candidates", std::move(rows)}, {"interrupted", report.interrupted}};
  if (!report.rows.empty() && report.rows[report.best].verdict == TuneVerdict::good)
    object["best"] = report.rows[report.best].config;
  if (!report.problem.empty())
    object["problem"] = report.problem;
  return object;
}

} // namespace sectile::autotune
