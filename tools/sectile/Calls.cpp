// Reads files of calls.
#include "tools/sectile/Calls.h"
#include "kernels/calls/Use.h"
#include "tools/File.h"
#include "tools/sectile/Execute.h"
#include "tools/sectile/Inputs.h"
#include "llvm/Support/JSON.h"
#include <algorithm>
#include <optional>
#include <sectile/error.h>
#include <sstream>

using namespace sectile;
using namespace sectile::tool;

std::string sectile::tool::dtypesFor(const KernelSpec &kernel, const std::string &names) {
  std::string text;
  const auto add = [&](const std::string &word) { text += (text.empty() ? "" : ",") + word; };
  std::istringstream words(names);
  for (std::string name; std::getline(words, name, ',');) {
    if (name.find('=') != std::string::npos) { // checked where the call is resolved
      add(name);
      continue;
    }
    const std::optional<DType> dtype = parseDType(name);
    if (!dtype)
      throw InputError("there is no dtype '" + name + "'");
    for (const ArgumentSpec &spec : kernel.arguments)
      if (!spec.output &&
          std::find(spec.dtypes.begin(), spec.dtypes.end(), *dtype) != spec.dtypes.end())
        add(spec.name + "=" + name);
  }
  return text;
}

static Case parseLine(const std::string &text, std::string dtype) {
  std::istringstream words(text);
  std::string word, name;
  words >> name;
  const KernelSpec &kernel = findKernel(name);
  std::map<std::string, std::int64_t> extents;
  std::vector<std::string> with;
  Assignments options, config, *assigned = nullptr;
  while (words >> word) {
    if (word == "opt" || word == "config") {
      assigned = word == "opt" ? &options : &config;
    } else if (word == "with" || word == "dtype") {
      std::string value;
      if (!(words >> value))
        throw InputError("'" + word + "' needs a value");
      if (word == "with")
        with = namesIn(value);
      else
        dtype = value;
    } else if (assigned) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos)
        throw InputError("'" + word + "' is not of the form KEY=VALUE");
      assigned->emplace_back(word.substr(0, equals), word.substr(equals + 1));
    } else {
      extents.merge(parseShape(word, name));
    }
  }
  return {resolveTypical(kernel, dtypesFor(kernel, dtype), extents, options, with),
          parseConfig(kernel, config)};
}

std::vector<Case> sectile::tool::readCases(const std::string &path,
                                           const std::vector<std::string> &kernels,
                                           const std::string &dtype) {
  std::vector<Case> cases;
  std::istringstream file(readFile(path));
  std::string text;
  for (std::size_t number = 1; std::getline(file, text); ++number) {
    text.erase(std::min(text.find('#'), text.size()));
    std::string name;
    if (!(std::istringstream(text) >> name))
      continue;
    try {
      findKernel(name);
      if (kernels.empty() || std::find(kernels.begin(), kernels.end(), name) != kernels.end())
        cases.push_back(parseLine(text, dtype));
    } catch (const InputError &error) {
      throw InputError(path + ":" + std::to_string(number) + ": " + error.what());
    }
  }
  if (cases.empty())
    throw InputError("--file: '" + path + "' has no shapes" +
                     (kernels.empty() ? "" : " for these kernels"));
  return cases;
}

// One call as CallRecorder writes it.
static Invocation recordedCall(const llvm::json::Value &value) {
  const auto wrong = [] { return InputError("is not what SECTILE_RECORD writes"); };
  const auto numbersIn = [&](const llvm::json::Array *list) {
    if (!list)
      throw wrong();
    Shape numbers;
    for (const llvm::json::Value &number : *list) {
      if (!number.getAsInteger())
        throw wrong();
      numbers.push_back(*number.getAsInteger());
    }
    return numbers;
  };
  const llvm::json::Object *call = value.getAsObject();
  const auto name = call ? call->getString("kernel") : std::nullopt;
  const llvm::json::Object *tensors = call ? call->getObject("tensors") : nullptr,
                           *options = call ? call->getObject("options") : nullptr;
  if (!name || !tensors || !options)
    throw wrong();
  const KernelSpec &kernel = findKernel(name->str());
  KernelOptions given;
  for (const auto &[option, text] : *options) {
    if (!text.getAsString())
      throw wrong();
    if (!text.getAsString()->empty()) // else by the call
      given[option.str()] = text.getAsString()->str();
  }
  NamedTensors inputs, outputs;
  for (const auto &[argument, type] : *tensors) {
    const llvm::json::Object *object = type.getAsObject();
    const auto dtype = object ? object->getString("dtype") : std::nullopt;
    AnyTensor tensor;
    if (!dtype || !parseDType(dtype->str()))
      throw wrong();
    tensor.dtype = *parseDType(dtype->str());
    tensor.extents = numbersIn(object->getArray("shape"));
    const bool isGiven = object->get("strides");
    tensor.strides = isGiven ? numbersIn(object->getArray("strides")) : Shape();
    if (isGiven && tensor.strides.size() != tensor.extents.size())
      throw wrong();
    const std::string text = argument.str();
    const auto spec = std::ranges::find(kernel.arguments, text, &ArgumentSpec::name);
    if (spec == kernel.arguments.end())
      throw InputError(kernel.name + ": there is no argument '" + text + "'");
    if (!spec->output)
      inputs[text] = std::move(tensor);
    else if (isGiven) // else the call allocated it
      outputs[text] = std::move(tensor);
  }
  return callOn(kernel, inputs, given, outputs);
}

std::vector<Invocation> sectile::tool::readRecordedCalls(const std::string &path) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(readFile(path));
  if (!value)
    throw InputError("--from: '" + path + "': " + llvm::toString(value.takeError()));
  const llvm::json::Array *list = value->getAsArray();
  std::vector<Invocation> calls;
  for (std::size_t i = 0; list && i < list->size(); ++i)
    try {
      calls.push_back(recordedCall((*list)[i]));
    } catch (const InputError &error) {
      throw InputError("--from: '" + path + "': call " + std::to_string(i + 1) + ": " +
                       error.what());
    }
  if (calls.empty())
    throw InputError("--from: '" + path +
                     "' has no calls: SECTILE_RECORD=FILE has a program write "
                     "those of the library's kernels that it makes");
  return calls;
}
