// `sectile list`: the kernels, or all about one.
#include "kernels/Registry.h"
#include "tools/sectile/Commands.h"
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

static void describe(const KernelSpec &kernel) {
  std::cout << kernel.name << ": " << kernel.summary << "\n\narguments:\n";
  Table arguments;
  for (const ArgumentSpec &spec : kernel.arguments)
    arguments.row({"  " + spec.name,
                   !spec.with.empty() ? "out with " + spec.with
                   : spec.output      ? "out"
                   : spec.optional    ? "in, optional"
                                      : "in",
                   axesOf(spec),
                   spec.dtypeBy        ? "by the options"
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
                 spec.initial.empty() ? "no default" : "default " + spec.initial, spec.doc});
  }
  options.print(std::cout);
  std::cout
      << "\nconfiguration (--config KEY=VALUE; defaults depend on the shapes and the device):\n";
  Table config;
  for (const ConfigSpec &spec : kernel.config)
    config.row({"  " + spec.name, spec.doc});
  config.print(std::cout);
}

int sectile::tool::runList(const CommandLine &line) {
  if (auto name = line.argument(0)) {
    describe(findKernel(*name));
    return 0;
  }
  Table table;
  for (const KernelSpec &kernel : kernelRegistry()) {
    std::string inputs, outputs;
    for (const ArgumentSpec &spec : kernel.arguments) {
      std::string &names = spec.output ? outputs : inputs;
      const bool maybe = spec.optional || !spec.with.empty();
      names += (names.empty() ? "" : ", ") + (maybe ? "[" + spec.name + "]" : spec.name);
    }
    table.row({kernel.name, inputs + " -> " + outputs, kernel.summary});
  }
  table.print(std::cout);
  return 0;
}
