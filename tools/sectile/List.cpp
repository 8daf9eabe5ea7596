// `sectile list`: the kernels, or all about one.
#include "kernels/registry/KernelFamilies.h"
#include "tools/sectile/Commands.h"
#include "tools/sectile/Json.h"
#include "tools/sectile/Table.h"
#include <iostream>

using namespace sectile;
using namespace sectile::tool;

static std::string axesOf(const ArgumentSpec &spec) {
  std::string text = "[";
  for (std::size_t i = 0; i < spec.axes.size(); ++i)
    text += (i ? ", " : "") + spec.axes[i];
  return text + "]";
}

static void printKernel(const KernelSpec &kernel) {
  std::cout << kernel.name << ": " << kernel.summary << "\n\narguments:\n";
  Table arguments;
  for (const ArgumentSpec &spec : kernel.arguments)
    arguments.row({"  " + spec.name,
                   !spec.with.empty() ? "out with " + spec.with
                   : spec.output      ? "out"
                   : spec.optional    ? "in, optional"
                                      : "in",
                   axesOf(spec),
                   spec.dtype_by       ? "by the options"
                   : spec.like.empty() ? dtypeNames(spec.dtypes)
                                       : "like " + spec.like,
                   spec.doc});
  arguments.print(std::cout);
  std::cout << "\noptions (--opt KEY=VALUE):" << (kernel.options.empty() ? " none\n" : "\n");
  Table options;
  for (const OptionSpec &spec : kernel.options) {
    std::string values = spec.kind == OptionSpec::flag      ? "true, false"
                         : spec.kind == OptionSpec::integer ? "a whole number"
                         : spec.kind == OptionSpec::seed    ? "a whole number of 64 bits"
                                                            : "a number";
    if (spec.kind == OptionSpec::choice) {
      values.clear();
      for (const std::string &choice : spec.choices)
        values += (values.empty() ? "" : ", ") + choice;
    }
    for (const std::string &sample : spec.samples)
      values += (&sample == &spec.samples.front() ? ", as " : ", ") + sample;
    options.row({"  " + spec.name, values,
                 spec.initial_by        ? "default by the inputs"
                 : spec.initial.empty() ? "no default"
                                        : "default " + spec.initial,
                 spec.doc});
  }
  options.print(std::cout);
  std::cout
      << "\nconfiguration (--config KEY=VALUE; defaults depend on the shapes and the device):\n";
  Table config;
  for (const ConfigSpec &spec : kernel.config)
    config.row({"  " + spec.name, spec.doc});
  config.print(std::cout);
}

// Words in lines of at most `width` letters; all but the first begin at column `left`.
static std::string wrapped(const std::string &text, std::size_t left, std::size_t width) {
  std::string lines;
  std::size_t column = left;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(' ', start), text.size());
    const bool fits = column == left || column + 1 + end - start <= width;
    if (!fits) {
      lines += "\n" + std::string(left, ' ');
      column = left;
    } else if (column > left) {
      lines += " ";
      ++column;
    }
    lines += text.substr(start, end - start);
    column += end - start;
    start = end + 1;
  }
  return lines;
}

static void printFamilies() {
  constexpr std::size_t width = 100;
  std::size_t left = 0;
  for (const KernelSpec &kernel : kernelRegistry())
    left = std::max(left, kernel.name.size() + 4);
  for (const KernelFamily &family : kernelFamilies()) {
    std::cout << (&family == &kernelFamilies().front() ? "" : "\n") << family.name << "\n";
    for (const KernelSpec *kernel : family.kernels)
      std::cout << "  " << kernel->name << std::string(left - 2 - kernel->name.size(), ' ')
                << wrapped(kernel->summary, left, width) << "\n";
  }
  std::cout << "\n`sectile list KERNEL` shows a kernel's arguments, options and configuration.\n";
}

static llvm::json::Object jsonOf(const KernelSpec &kernel, const std::string &family) {
  llvm::json::Array arguments, options, config;
  for (const ArgumentSpec &spec : kernel.arguments) {
    llvm::json::Array dtypes;
    for (const DType dtype : spec.dtypes)
      dtypes.push_back(std::string(name_of(dtype)));
    llvm::json::Object argument{{"name", spec.name},
                                {"output", spec.output},
                                {"optional", spec.optional || !spec.with.empty()},
                                {"axes", llvm::json::Array(spec.axes)},
                                {"dtypes", std::move(dtypes)},
                                {"doc", spec.doc}};
    if (!spec.like.empty())
      argument["like"] = spec.like;
    if (!spec.with.empty())
      argument["with"] = spec.with;
    arguments.push_back(std::move(argument));
  }
  for (const OptionSpec &spec : kernel.options)
    options.push_back(llvm::json::Object{{"name", spec.name},
                                         {"default", spec.initial},
                                         {"choices", llvm::json::Array(spec.choices)},
                                         {"doc", spec.doc}});
  for (const ConfigSpec &spec : kernel.config)
    config.push_back(llvm::json::Object{
        {"name", spec.name}, {"least", spec.least}, {"most", spec.most}, {"doc", spec.doc}});
  return llvm::json::Object{{"name", kernel.name},           {"family", family},
                            {"summary", kernel.summary},     {"arguments", std::move(arguments)},
                            {"options", std::move(options)}, {"config", std::move(config)}};
}

int sectile::tool::runList(const CommandLine &line) {
  const std::optional<std::string> name = line.argument(0);
  const KernelSpec *wanted = name ? &findKernel(*name) : nullptr;
  if (!line.has("--json")) {
    wanted ? printKernel(*wanted) : printFamilies();
    return 0;
  }
  llvm::json::Array all;
  for (const KernelFamily &family : kernelFamilies())
    for (const KernelSpec *kernel : family.kernels)
      if (!wanted || kernel == wanted)
        all.push_back(jsonOf(*kernel, family.name));
  printJson(std::move(all));
  return 0;
}
