// What a command line says of a kernel's arguments: arrays from files, or extents alone.
#pragma once
#include "kernels/registry/Registry.h"
#include "tools/sectile/CommandLine.h"

namespace sectile::tool {

// "m=512,n=512": several assignments in one word. `where` is the option or the file's line, for
// messages.
std::map<std::string, std::int64_t> parseShape(std::string_view text, const std::string &where);
// All of --shape.
std::map<std::string, std::int64_t> parseShape(const CommandLine &line);

struct Inputs {
  std::map<std::string, GivenTensor> types;
  std::map<std::string, HostArray> arrays;
};
// The arrays of --in; raw ones hold what --dtype says.
Inputs readInputs(const CommandLine &line, const KernelSpec &kernel);

// The call that `run` would make of --in, or else `compile` of --shape and --dtype; --opt counts
// for both.
Invocation resolveCall(const CommandLine &line, const KernelSpec &kernel);

// "bias,mask"
std::vector<std::string> namesIn(std::string_view text);
// The optional inputs that --with names.
std::vector<std::string> withOf(const CommandLine &line);

// Which of a kernel's launches --part names; the only one where it is not given.
std::size_t partOf(const CommandLine &line, const KernelSpec &kernel,
                   const std::vector<std::string> &parts);

} // namespace sectile::tool
