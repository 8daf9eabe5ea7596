// Code objects of the library's kernels for AMD's chips: whatever they call is in them.
#include "RandomCase.h"
#include "kernels/calls/Emit.h"
#include "tests/unit/Processes.h"
#include "llvm/Object/ELFObjectFile.h"
#include <set>

using namespace sectile;
using namespace sectile::test;

namespace {

class AmdObjects : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Chips, AmdObjects,
                         testing::Values("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"));

// Names that a code object uses and does not define.
std::string undefinedIn(const std::string &object) {
  auto file = llvm::cantFail(
      llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "object")));
  const auto &elf = llvm::cast<llvm::object::ELFObjectFileBase>(*file);
  std::string names;
  auto collect = [&](auto &&symbols) {
    for (const llvm::object::ELFSymbolRef &symbol : symbols)
      if (llvm::cantFail(symbol.getFlags()) & llvm::object::SymbolRef::SF_Undefined)
        if (const llvm::StringRef name = llvm::cantFail(symbol.getName()); !name.empty())
          names += name.str() + " ";
  };
  collect(elf.symbols());
  collect(elf.getDynamicSymbolIterators());
  return names;
}

// Calls with typical extents: as they are, and with each option's other values.
std::vector<Invocation> callsOf(const KernelSpec &kernel) {
  std::vector<Assignments> choices = {{}};
  for (const OptionSpec &option : kernel.options)
    for (const std::string &value : otherValues(option))
      choices.push_back({{option.name, value}});
  std::vector<Invocation> calls;
  for (const Assignments &options : choices)
    try {
      calls.push_back(resolveTypical(kernel, "", {}, options));
    } catch (const InputError &) { // not without another option
    }
  return calls;
}

} // namespace

TEST_P(AmdObjects, CallNothingThatIsNotInThem) {
  const std::set<std::string> representative = {"quantize", "silu_mul_quantize", "softmax", "sort"};
  const bool all = count(0, 1) == 1;
  unsigned checked = 0;
  for (const KernelSpec &kernel : kernelRegistry()) {
    if (!all && !representative.contains(kernel.name))
      continue;
    for (const Invocation &call : callsOf(kernel)) {
      const Config config = completeConfig(call, GetParam(), {});
      for (const KernelCode &code : emitKernel(call, config, GetParam(), "hsaco")) {
        EXPECT_EQ(undefinedIn(code.code), "") << kernel.name << ": " << code.name;
        ++checked;
      }
    }
  }
  EXPECT_GE(checked, representative.size());
}
