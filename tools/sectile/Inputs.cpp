// Reading --in, --dtype, --shape and --opt.
#include "tools/sectile/Inputs.h"
#include "tools/npy/Npy.h"
#include <algorithm>
#include <charconv>
#include <sectile/error.h>

namespace sectile::tool {

std::map<std::string, std::int64_t> parseShape(std::string_view text, const std::string &where) {
  std::map<std::string, std::int64_t> extents;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    const std::string part(text.substr(start, comma - start));
    const std::size_t equals = part.find('=');
    std::int64_t extent = -1;
    if (equals != std::string::npos)
      std::from_chars(part.data() + equals + 1, part.data() + part.size(), extent);
    if (equals == std::string::npos || equals == 0 || extent < 0 ||
        std::to_string(extent) != part.substr(equals + 1))
      throw InputError(where + " needs the form AXIS=EXTENT, not '" + part + "'");
    extents[part.substr(0, equals)] = extent;
    start = comma + 1;
  }
  return extents;
}

std::map<std::string, std::int64_t> parseShape(const CommandLine &line) {
  std::map<std::string, std::int64_t> extents;
  for (const auto &[first, rest] : line.assignments("--shape"))
    for (const auto &[axis, extent] : parseShape(first + "=" + rest, "--shape"))
      extents[axis] = extent;
  return extents;
}

// The dtypes that --dtype gives to raw arrays: for one input by name, or for all ("").
static std::map<std::string, DType> rawDtypes(const CommandLine &line, const KernelSpec &kernel) {
  std::map<std::string, DType> result;
  for (const auto &[name, value] : line.assignments("--dtype", true)) {
    bool known = name.empty();
    for (const ArgumentSpec &spec : kernel.arguments)
      known |= !spec.output && spec.name == name;
    if (!known)
      throw InputError("--dtype: " + kernel.name + " has no input '" + name + "'");
    std::optional<DType> dtype = parseDType(value);
    if (!dtype)
      throw InputError("--dtype: there is no dtype '" + value +
                       "'; raw arrays can be bf16, f16, f8e4m3, f8e5m2, f8e4m3fnuz, f8e5m2fnuz or "
                       "f8e4m3b11fnuz");
    result[name] = *dtype;
  }
  return result;
}

Inputs readInputs(const CommandLine &line, const KernelSpec &kernel) {
  const auto dtypes = rawDtypes(line, kernel);
  Inputs inputs;
  for (const auto &[name, path] : line.assignments("--in")) {
    HostArray array = readNpy(path);
    for (const std::string &key : {std::string(), name})
      if (auto dtype = dtypes.find(key); dtype != dtypes.end())
        reinterpret(array, dtype->second, path);
    inputs.types[name] = {{array.dtype, array.shape}, path};
    inputs.arrays[name] = std::move(array);
  }
  return inputs;
}

Invocation resolveCall(const CommandLine &line, const KernelSpec &kernel) {
  if (line.has("--in")) {
    if (line.has("--shape"))
      throw InputError("--shape: the arrays of --in have shapes already");
    if (line.has("--with"))
      throw InputError("--with: the inputs of --in are those that there are");
    return resolve(kernel, readInputs(line, kernel).types, line.assignments("--opt"));
  }
  std::string dtype;
  for (const auto &[name, value] : line.assignments("--dtype", true))
    dtype += (dtype.empty() ? "" : ",") + (name.empty() ? value : name + "=" + value);
  return resolveTypical(kernel, dtype, parseShape(line), line.assignments("--opt"), withOf(line));
}

std::vector<std::string> namesIn(std::string_view text) {
  std::vector<std::string> names;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    names.emplace_back(text.substr(start, comma - start));
    start = comma + 1;
  }
  return names;
}

std::vector<std::string> withOf(const CommandLine &line) {
  return namesIn(line.value("--with").value_or(""));
}

std::size_t partOf(const CommandLine &line, const KernelSpec &kernel,
                   const std::vector<std::string> &parts) {
  std::string known;
  for (auto part = parts.begin(); part != parts.end(); ++part)
    if (std::find(parts.begin(), part, *part) == part)
      known += (known.empty() ? "" : ", ") + *part;
  if (!line.has("--part")) {
    if (parts.size() == 1)
      return 0;
    throw InputError("--part is missing: " + kernel.name + " launches " + known);
  }
  const auto found = std::find(parts.begin(), parts.end(), *line.value("--part"));
  if (found == parts.end())
    throw InputError("--part: " + kernel.name + " does not launch '" + *line.value("--part") +
                     "'; it launches " + known);
  return static_cast<std::size_t>(found - parts.begin());
}

} // namespace sectile::tool
