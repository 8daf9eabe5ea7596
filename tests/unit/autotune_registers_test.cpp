// What the autotuner drops for its registers against what ptxas spills, over the search spaces of
// the whole library.
#include "codegen/nvidia/Ptxas.h"
#include "codegen/nvidia/RegisterEstimate.h"
#include "kernels/references/Parallel.h"
#include "tests/unit/Candidates.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace sectile;
using namespace sectile::test;

namespace {

struct Case {
  Candidate candidate;
  const Target *target;
  ResourceEstimate estimate;
  std::optional<PtxasResult> real; ///< none where shared memory is too small

  unsigned limit() const { return nvidia::registerLimit(*target, estimate.threads); }
  bool fits() const { return real->spillStoreBytes == 0; }
  /// ptxas also spills a little below the limit, so that one more block is resident; and where far
  /// too much is alive, it takes few registers and spills nearly everything.
  unsigned need() const { return real->registers + real->spillStoreBytes / 4; }
  bool clearlyDoesNotFit() const { return !fits() && need() > 1.05 * limit(); }
  bool isDropped() const { return !estimate.excess.empty(); }
  std::string text() const {
    return target->name + " " + candidate.what + ": estimated " +
           std::to_string(estimate.fewestRegisters) + " to " + std::to_string(estimate.registers) +
           " of " + std::to_string(limit()) + ", ptxas takes " + std::to_string(real->registers) +
           " and spills " + std::to_string(real->spillStoreBytes / 4);
  }
};

void look(Case &one) {
  one.estimate = estimateOf(one.candidate.launch, *one.target);
  runtime::CodeAccess::trace(one.candidate.launch, *one.target, [&](mlir::ModuleOp module) {
    const CompileOptions options = runtime::LaunchAccess::options(one.candidate.launch);
    llvm::Expected<std::string> ptx = compileTo(module, *one.target, options, Form::Ptx);
    if (!ptx)
      return llvm::consumeError(ptx.takeError());
    one.real = llvm::cantFail(assemble(*ptx, *one.target, one.target->maxSharedBytes));
  });
}

// All search spaces: of each a configuration in one dtype on one chip, of the next in another. With
// SECTILE_TEST_ALL=1 of each two in both dtypes on both chips; then enough of them spill to say how
// many of those are dropped.
TEST(RegisterEstimate, NothingThatFitsIsDroppedAndMostOfTheRestIs) {
  if (!findPtxas())
    GTEST_SKIP() << "there is no ptxas to compare with";
  const Target targets[] = {llvm::cantFail(Target::get("sm_80")),
                            llvm::cantFail(Target::get("sm_90a"))};
  const unsigned each = count(1, 2);
  const bool whole = count(0, 1);
  std::vector<Case> cases;
  unsigned turn = 0;
  for (const KernelSpec &kernel : kernelRegistry()) {
    if (!isAmongAThird(turn++))
      continue;
    for (unsigned combination = 0; combination < 4; ++combination) {
      if (!whole && combination != turn % 4)
        continue;
      const Target &target = targets[combination % 2];
      const Invocation call = typicalCall(kernel, combination / 2 ? "f32" : "f16");
      std::vector<Candidate> candidates = othersOf(call, target.name);
      for (const SearchSpace &space : kernel.spaces)
        for (Candidate &one : someOf(call, space, target.name, each, turn * 7 + combination))
          candidates.push_back(std::move(one));
      for (Candidate &candidate : candidates)
        cases.push_back({std::move(candidate), &target, {}, {}});
    }
  }
  parallelFor(std::ssize(cases), [&](std::int64_t i) { look(cases[size_t(i)]); });
  std::erase_if(cases, [](const Case &one) { return !one.real; });

  unsigned fitting = 0, dropped = 0, kept = 0;
  std::vector<double> errors;
  for (const Case &one : cases) {
    if (one.fits()) {
      ++fitting;
      errors.push_back(std::abs(double(one.estimate.registers) / one.real->registers - 1));
      EXPECT_FALSE(one.isDropped()) << one.text();
    } else if (one.clearlyDoesNotFit()) {
      ++(one.isDropped() ? dropped : kept);
      if (!one.isDropped())
        std::printf("kept: %s\n", one.text().c_str());
    }
  }
  std::sort(errors.begin(), errors.end());
  const double median = errors[errors.size() / 2];
  std::printf("%zu configurations: %u fit, and of %u that need more than 1.05 times the limit %u "
              "are dropped; the usual number of those that fit has a median error of %.0f%%\n",
              cases.size(), fitting, dropped + kept, dropped, 100 * median);
  // What was measured, and some room for another version of ptxas.
  EXPECT_LE(median, 0.25);
  if (whole) {
    EXPECT_GE(dropped, 5u);
    EXPECT_GE(dropped, 0.5 * (dropped + kept));
  }
}

} // namespace
