// Running hand-written LLVM IR on the virtual GPU: what the tests of its parts have in common.
#pragma once
#include "Chip.h"
#include "codegen/virtual/HostCompiler.h"
#include "vgpu/Machine.h"
#include "vgpu/Program.h"
#include <cstring>
#include <gtest/gtest.h>
#include <span>
#include <string>

namespace sectile::vgpu {

// Heads of modules: triple and data layout as the targets have them, and declarations nobody needs
// to repeat.
extern const char nvidiaHead[];
extern const char amdHead[];

// Compiles the text of a module; a failure is the returned error.
llvm::Expected<VirtualObject> compileText(const std::string &text, const HostOptions &options = {});

// Gives every line of the kernel's body that ends in ";; N" the source line N. A chip's code is no
// other for it: full line tables would make it code for a debugger, without `setmaxnreg`.
std::string withLines(const std::string &text);
// The text with the first `from` replaced; it is a failure of the test when there is none.
std::string replaced(std::string text, const std::string &from, const std::string &to);

// A machine, and a kernel on it.
class Runner {
public:
  explicit Runner(const std::string &text, unsigned warpSize = 32);

  template <class T> T *upload(const std::vector<T> &values) {
    T *memory = allocate<T>(values.size());
    std::copy(values.begin(), values.end(), memory);
    machine.memory().written(memory, values.size() * sizeof(T));
    return memory;
  }
  // Nothing has written it.
  template <class T> T *allocate(size_t count) {
    auto *memory = static_cast<T *>(machine.memory().allocate(count * sizeof(T)));
    allocations.push_back(
        {reinterpret_cast<unsigned char *>(memory), std::vector<unsigned char>(count * sizeof(T))});
    return memory;
  }

  template <class... Arguments> LaunchResult run(Arguments... arguments) {
    void *pointers[] = {static_cast<void *>(&arguments)..., nullptr};
    return machine.launch(*program, shape, pointers, options);
  }
  // Runs, and fails the test when there is a finding, or a chip leaves something else in memory.
  template <class... Arguments> Counters expectClean(Arguments... arguments) {
    return expectCleanLaunches(1, arguments...);
  }
  // The same for so many launches, each of which may start before the one ahead is done; the last
  // one's counters.
  template <class... Arguments>
  Counters expectCleanLaunches(unsigned launches, Arguments... arguments) {
    Chip *chip = chipForLaunch();
    if (chip)
      for (Snapshot &each : allocations)
        each.bytes.assign(each.address, each.address + each.bytes.size());
    LaunchResult result;
    for (unsigned i = 0; i < launches && !result.finding; ++i) {
      options.overlapped = result.launched;
      result = run(arguments...);
    }
    options.overlapped = nullptr;
    EXPECT_FALSE(result.finding) << result.finding->text();
    if (chip && !result.finding)
      chip->compare(text, shape, allocations, {argument(arguments)...}, chipUlps, launches);
    return result.counters;
  }
  // Runs, and fails the test unless the finding has this kind and, where `line` is given, this
  // source line.
  template <class... Arguments>
  Finding expectFinding(FindingKind kind, uint32_t line, Arguments... arguments) {
    LaunchResult result = run(arguments...);
    EXPECT_TRUE(result.finding) << "expected a " << kindName(kind);
    if (!result.finding)
      return {};
    EXPECT_EQ(kindName(result.finding->kind), std::string(kindName(kind)))
        << result.finding->text();
    if (line) {
      EXPECT_EQ(result.finding->line, line) << result.finding->text();
      EXPECT_EQ(result.finding->file, "kernel.cpp") << result.finding->text();
    }
    return *result.finding;
  }

  static Argument argument(const TensorMap &map) { return map; }
  template <class T> static Argument argument(T value) {
    static_assert(sizeof value <= sizeof(uint64_t));
    uint64_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    return word;
  }

  std::string text;
  bool onChip;            // where there is one: the program is for it
  unsigned chipUlps = 0;  // by how much a chip's floats may differ
  std::string chipTarget; // the only one whose chips can run it; empty: all can
  std::vector<Snapshot> allocations;
  std::unique_ptr<Machine> owned;
  Machine &machine;
  std::shared_ptr<const Program> program;
  LaunchShape shape;
  LaunchOptions options;

private:
  // Null where there is none, or none that can run this. A chip has one schedule, its own: it runs
  // what the virtual GPU runs in order.
  Chip *chipForLaunch() const {
    Chip *chip = onChip && !options.seed ? Chip::get() : nullptr;
    return chip && (chipTarget.empty() || chip->target() == chipTarget) ? chip : nullptr;
  }
};

} // namespace sectile::vgpu
