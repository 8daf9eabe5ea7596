// Reads files of calls.
#include "tools/sectile/Calls.h"
#include "tools/File.h"
#include "tools/sectile/Execute.h"
#include "tools/sectile/Inputs.h"
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
