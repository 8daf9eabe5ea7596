// The estimate of registers against what ptxas takes, over the search spaces of the whole library.
#include "codegen/nvidia/Ptxas.h"
#include "codegen/nvidia/RegisterEstimate.h"
#include "kernels/Parallel.h"
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
  /// Whether the fewest is within 5% of the least with which ptxas spills nothing, where that was
  /// looked for.
  std::optional<bool> isFewest;

  unsigned limit() const { return nvidia::registerLimit(*target, estimate.threads); }
  bool fits() const { return real->spillStoreBytes == 0; }
  /// ptxas also spills a little below the limit, so that one more block is resident; and where far
  /// too much is alive, it takes few registers and spills nearly everything.
  unsigned need() const { return real->registers + real->spillStoreBytes / 4; }
  bool isDropped() const { return !estimate.excess.empty(); }
  bool isNear() const {
    return std::abs(double(estimate.registers) - real->registers) <= 0.05 * real->registers;
  }
  std::string text() const {
    return target->name + " " + candidate.what + ": estimated " +
           std::to_string(estimate.fewestRegisters) + " to " + std::to_string(estimate.registers) +
           " of " + std::to_string(limit()) + ", ptxas takes " + std::to_string(real->registers) +
           " and spills " + std::to_string(real->spillStoreBytes / 4);
  }
};

/// Whether ptxas spills with so many registers; with too few for one instruction it fails.
bool spillsWith(unsigned registers, const std::string &ptx, const Target &target) {
  std::string limited = ptx;
  limited.insert(ptx.find(".reqntid"), ".maxnreg " + std::to_string(registers) + "\n");
  llvm::Expected<PtxasResult> result = runPtxas(limited, target);
  if (!result) {
    llvm::consumeError(result.takeError());
    return true;
  }
  return result->spillStoreBytes > 0;
}

/// Small kernels are not worth their time: two registers are more than 5% of them.
constexpr unsigned large = 64;

void look(Case &one, bool whole) {
  const CompileOptions options = runtime::LaunchAccess::options(one.candidate.launch);
  one.estimate = estimateOf(one.candidate.launch, *one.target);
  runtime::LaunchAccess::trace(one.candidate.launch, [&](mlir::ModuleOp module) {
    llvm::Expected<std::string> ptx = compileTo(module, *one.target, options, Form::Ptx);
    if (!ptx)
      return llvm::consumeError(ptx.takeError());
    one.real = llvm::cantFail(runPtxas(*ptx, *one.target));
    const unsigned fewest = one.estimate.fewestRegisters;
    if (whole && one.fits() && fewest >= large) {
      const unsigned tooFew = unsigned(std::ceil(fewest / 1.05)) - 1;
      const unsigned enough = std::min(one.limit(), unsigned(fewest / 0.95));
      one.isFewest =
          spillsWith(tooFew, *ptx, *one.target) && !spillsWith(enough, *ptx, *one.target);
    }
  });
}

// All search spaces: of each two configurations in one dtype on one chip, of the next in another.
// With SECTILE_TEST_ALL=1 of each in both dtypes on both chips; then enough of them spill to say
// how many of those are dropped, and the least that each can do with is bounded.
TEST(RegisterEstimate, IsNearWhatPtxasTakes) {
  if (!findPtxas())
    GTEST_SKIP() << "there is no ptxas to compare with";
  const Target targets[] = {llvm::cantFail(Target::get("sm_80")),
                            llvm::cantFail(Target::get("sm_90a"))};
  constexpr unsigned each = 2;
  const bool whole = count(0, 1);
  std::vector<Case> cases;
  unsigned turn = 0;
  for (const KernelSpec &kernel : kernelRegistry()) {
    ++turn;
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
        cases.push_back({std::move(candidate), &target, {}, {}, {}});
    }
  }
  parallelFor(std::ssize(cases), [&](std::int64_t i) { look(cases[size_t(i)], whole); });
  std::erase_if(cases, [](const Case &one) { return !one.real; });

  unsigned near = 0, fitting = 0, dropped = 0, kept = 0;
  unsigned bounded = 0, fewest = 0;
  std::vector<double> errors;
  for (const Case &one : cases) {
    if (one.fits()) {
      ++fitting;
      near += one.isNear();
      errors.push_back(std::abs(double(one.estimate.registers) / one.real->registers - 1));
      bounded += one.isFewest.has_value();
      fewest += one.isFewest.value_or(false);
      EXPECT_FALSE(one.isDropped()) << one.text();
    } else if (one.need() > 1.05 * one.limit()) {
      dropped += one.isDropped();
      kept += !one.isDropped();
      if (!one.isDropped())
        std::printf("kept: %s\n", one.text().c_str());
    }
  }
  std::sort(errors.begin(), errors.end());
  const double median = errors[errors.size() / 2];
  std::printf(
      "%zu configurations: the usual number is within 5%% for %u of %u that fit, the median "
      "error is %.1f%%; of %u that need more than 1.05 times the limit %u are dropped\n",
      cases.size(), near, fitting, 100 * median, dropped + kept, dropped);
  // What was measured, and some room for another version of ptxas.
  EXPECT_GE(near, 0.3 * fitting);
  EXPECT_LE(median, 0.12);
  if (whole) {
    std::printf("the fewest is within 5%% for %u of %u that fit, where it is at least %u\n", fewest,
                bounded, large);
    EXPECT_GE(fewest, 0.3 * bounded);
    EXPECT_GE(dropped, 5u);
    EXPECT_GE(dropped, 0.6 * (dropped + kept));
  }
}

} // namespace
