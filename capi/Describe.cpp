// Writes the description of an operation as JSON. docs/c.md lists its fields.
#include "capi/Describe.h"
#include "capi/Json.h"
#include <algorithm>

using namespace sectile;
using namespace sectile::c;

namespace {

std::string texts(const std::vector<std::string> &values) {
  Json all = list();
  for (const std::string &value : values)
    all.add(quotedJson(value));
  return all.done();
}

std::string dtypes(const std::vector<DType> &values) {
  Json all = list();
  for (const DType dtype : values)
    all.add(quotedJson(name_of(dtype)));
  return all.done();
}

std::string argument(const ArgumentSpec &spec) {
  Json json = object();
  json.add("name", quotedJson(spec.name))
      .add("output", boolean(spec.output))
      .add("optional", boolean(spec.optional))
      .add("with", quotedJson(spec.with))
      .add("axes", texts(spec.axes))
      .add("reordered", boolean(spec.stored != nullptr))
      .add("dtypes", dtypes(spec.dtypes))
      .add("like", quotedJson(spec.like))
      .add("also", dtypes(spec.also))
      .add("over", texts(spec.over))
      .add("doc", quotedJson(spec.doc));
  return json.done();
}

std::string option(const OptionSpec &spec) {
  const char *kinds[] = {"flag", "number", "integer", "seed", "choice"};
  Json json = object();
  json.add("name", quotedJson(spec.name))
      .add("kind", quotedJson(kinds[spec.kind]))
      .add("default", spec.initial.empty() ? "null" : quotedJson(spec.initial))
      .add("choices", texts(spec.choices))
      .add("samples", texts(spec.samples))
      .add("doc", quotedJson(spec.doc));
  return json.done();
}

const ArgumentSpec *find(const KernelSpec &kernel, std::string_view name, bool output) {
  const auto found = std::ranges::find_if(kernel.arguments, [&](const ArgumentSpec &spec) {
    return spec.output == output && spec.name == name;
  });
  return found == kernel.arguments.end() ? nullptr : &*found;
}

// What an argument of X_backward is to a call of X: "input", "output", "gradient_of_output",
// "gradient_of_input", and of which argument. Empty where the names do not say.
std::pair<const char *, std::string> roleOf(const KernelSpec &forward, const ArgumentSpec &spec) {
  const std::string rest = spec.name.starts_with("d") ? spec.name.substr(1) : "";
  if (spec.output)
    return find(forward, rest, false) ? std::pair("gradient_of_input", rest)
                                      : std::pair("", std::string());
  if (find(forward, spec.name, false))
    return {"input", spec.name};
  if (find(forward, spec.name, true))
    return {"output", spec.name};
  return find(forward, rest, true) ? std::pair("gradient_of_output", rest)
                                   : std::pair("", std::string());
}

const KernelSpec *backwardOf(const KernelSpec &kernel) {
  const std::string wanted = kernel.name + "_backward";
  for (std::size_t i = 0; const KernelSpec *other = kernelAt(i); ++i)
    if (other->name == wanted)
      return other;
  return nullptr;
}

std::string backward(const KernelSpec &forward) {
  const KernelSpec *const kernel = backwardOf(forward);
  if (!kernel)
    return "null";
  Json arguments = list();
  for (const ArgumentSpec &spec : kernel->arguments) {
    const auto [role, of] = roleOf(forward, spec);
    if (!*role)
      return "null"; // a pair by name only
    Json json = object();
    json.add("name", quotedJson(spec.name)).add("is", quotedJson(role)).add("of", quotedJson(of));
    arguments.add(json.done());
  }
  std::vector<std::string> shared;
  for (const OptionSpec &option : kernel->options)
    if (std::ranges::find(forward.options, option.name, &OptionSpec::name) != forward.options.end())
      shared.push_back(option.name);
  Json json = object();
  json.add("name", quotedJson(kernel->name))
      .add("arguments", arguments.done())
      .add("options", texts(shared));
  return json.done();
}

} // namespace

std::string sectile::c::describeOperation(const KernelSpec &kernel) {
  Json arguments = list(), options = list();
  for (const ArgumentSpec &spec : kernel.arguments)
    arguments.add(argument(spec));
  for (const OptionSpec &spec : kernel.options)
    options.add(option(spec));
  Json json = object();
  json.add("name", quotedJson(kernel.name))
      .add("family", quotedJson(familyOf(kernel)))
      .add("summary", quotedJson(kernel.summary))
      .add("arguments", arguments.done())
      .add("options", options.done())
      .add("backward", backward(kernel));
  return json.done();
}
