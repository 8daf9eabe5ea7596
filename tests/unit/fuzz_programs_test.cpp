// The fuzzer's random kernels: each follows from its seed, is defined in the interpreter's eyes,
// and together they have the shapes of hazards that they are there for.
#include "codegen/Compiler.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Verifier.h"
#include "tests/fuzz/programs/Run.h"
#include <gmock/gmock.h>
#include <map>

using namespace mlir;
using namespace sectile;
using namespace sectile::fuzz;

namespace {

GeneratorOptions focusedOptions(Focus focus, uint64_t seed) {
  GeneratorOptions options;
  options.focus = focus;
  options.programs = 2 + seed % 2;
  options.exact = focus == Focus::HandOvers || focus == Focus::Chains || seed % 2;
  return options;
}

OwningOpRef<ModuleOp> make(ContextLease &context, Focus focus, uint64_t seed) {
  return Generator(context.get(), seed, focusedOptions(focus, seed)).make();
}

GeneratorOptions memoryOptions(uint64_t seed) {
  GeneratorOptions options;
  options.programs = 1 + seed % 2;
  options.cluster = seed % 4 == 3 ? 2 : 1;
  options.exact = seed % 3 == 0;
  options.memory = true;
  return options;
}

OwningOpRef<ModuleOp> make(ContextLease &context, uint64_t seed) {
  return Generator(context.get(), seed, memoryOptions(seed)).make();
}

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  return text;
}

TEST(FuzzPrograms, OneSeedMakesOneProgram) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    ContextLease first, second;
    std::string text = textOf(*make(first, seed));
    EXPECT_EQ(text, textOf(*make(second, seed)));
    EXPECT_NE(text, textOf(*make(first, seed + 1)));
  }
}

TEST(FuzzPrograms, AreDefined) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    ContextLease context;
    OwningOpRef<ModuleOp> module = make(context, seed);
    ASSERT_TRUE(succeeded(verify(*module))) << seed;
    auto outputs = interpret(*module, makeInputs(context.get(), seed, memoryOptions(seed)));
    EXPECT_TRUE(bool(outputs)) << seed << ": " << llvm::toString(outputs.takeError());
  }
}

TEST(FuzzPrograms, OfOneSubjectAreDefined) {
  for (Focus focus : {Focus::Nests, Focus::Products, Focus::Chains, Focus::HandOvers,
                      Focus::Integers, Focus::Constants}) {
    unsigned run = 0;
    for (uint64_t seed = 0; seed < 16; ++seed) {
      ContextLease context;
      OwningOpRef<ModuleOp> module = make(context, focus, seed);
      ASSERT_TRUE(succeeded(verify(*module))) << seed;
      auto outputs =
          interpret(*module, makeInputs(context.get(), seed, focusedOptions(focus, seed)));
      EXPECT_TRUE(bool(outputs)) << int(focus) << ", " << seed << ": "
                                 << llvm::toString(outputs.takeError());
      run += outputs && *outputs;
    }
    // What depends on numbers that devices differ in is not run.
    EXPECT_GE(run, 12u) << int(focus);
  }
}

/// Whether one of some programs comes out otherwise if a compiler makes a mistake: `plant` makes
/// it, and says whether there was a place for it. A mistake of the compiler's own does not count.
bool isFound(Focus focus, StringRef target, function_ref<bool(ModuleOp)> plant,
             uint64_t seeds = 24) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    ContextLease context;
    OwningOpRef<ModuleOp> module = make(context, focus, seed), wrong = module->clone();
    if (!plant(*wrong))
      continue;
    const Inputs inputs = makeInputs(context.get(), seed, focusedOptions(focus, seed));
    auto expected = interpret(*module, inputs);
    if (!expected)
      consumeError(expected.takeError());
    else if (*expected) {
      const Setting setting = Setting::of(seed, target);
      if (difference(*wrong, inputs, **expected, setting) &&
          !difference(*module, inputs, **expected, setting))
        return true;
    }
  }
  return false;
}

/// Puts another operation in the place of each of a kind.
template <class From, class To> bool replaceEach(ModuleOp module) {
  bool any = false;
  module.walk([&](From op) {
    OpBuilder builder(op);
    op.replaceAllUsesWith(To::create(builder, op.getLoc(), op->getOperands()).getResult());
    any = true;
  });
  return any;
}

TEST(FuzzPrograms, FindWrappedIntegersTakenForPositive) {
  EXPECT_TRUE(isFound(Focus::Integers, "sm_80", replaceEach<arith::ShRSIOp, arith::ShRUIOp>));
  EXPECT_TRUE(isFound(Focus::Integers, "gfx942", replaceEach<arith::RemSIOp, arith::RemUIOp>));
  EXPECT_TRUE(isFound(Focus::Integers, "sm_80", replaceEach<arith::RemUIOp, arith::RemSIOp>));
}

TEST(FuzzPrograms, FindBlocksThatLackTheCheckOfAnEdge) {
  // What lies before a view is loaded.
  EXPECT_TRUE(isFound(Focus::Integers, "sm_80", [](ModuleOp module) {
    bool any = false;
    module.walk([&](tile::LoadBlockOp load) {
      OpBuilder builder(load);
      for (OpOperand &offset : load.getOffsetsMutable()) {
        Value none = arith::ConstantOp::create(builder, load.getLoc(),
                                               builder.getZeroAttr(offset.get().getType()));
        Value least = arith::MaxSIOp::create(builder, load.getLoc(), none, offset.get());
        offset.set(least);
        any = true;
      }
    });
    return any;
  }));
}

TEST(FuzzPrograms, FindReadsAheadOfABarrier) {
  // A barrier comes after the loop that reads what was stored before it.
  EXPECT_TRUE(isFound(Focus::HandOvers, "sm_80", [](ModuleOp module) {
    bool any = false;
    module.walk([&](tile::BarrierOp barrier) {
      for (Operation *next = barrier->getNextNode(); next && !any; next = next->getNextNode())
        if (isa<scf::ForOp>(next)) {
          barrier->moveAfter(next);
          any = true;
        }
    });
    return any;
  }));
}

TEST(FuzzPrograms, FindReadsAheadOfAnAcquire) {
  // Nothing waits for a flag.
  EXPECT_TRUE(isFound(Focus::HandOvers, "sm_80", [](ModuleOp module) {
    SmallVector<scf::WhileOp> waits;
    module.walk([&](scf::WhileOp loop) {
      if (loop.getNumResults() == 0)
        waits.push_back(loop);
    });
    for (scf::WhileOp loop : waits)
      loop.erase();
    return !waits.empty();
  }));
}

TEST(FuzzPrograms, FindLoopsWithWrongBounds) {
  // A bound that nothing can follow is taken for zero, and one that wraps for no iterations.
  EXPECT_TRUE(isFound(Focus::Nests, "sm_80", [](ModuleOp module) {
    bool any = false;
    module.walk([&](scf::ForOp loop) {
      if (loop.getLowerBound().getDefiningOp<arith::ConstantOp>())
        return;
      OpBuilder builder(loop);
      Value none = arith::ConstantOp::create(builder, loop.getLoc(),
                                             builder.getZeroAttr(loop.getLowerBound().getType()));
      loop.setLowerBound(none);
      any = true;
    });
    return any;
  }));
  EXPECT_TRUE(isFound(
      Focus::Nests, "sm_80",
      [](ModuleOp module) {
        bool any = false;
        module.walk([&](scf::ForOp loop) {
          APInt first, last;
          if (!matchPattern(loop.getLowerBound(), m_ConstantInt(&first)) ||
              !matchPattern(loop.getUpperBound(), m_ConstantInt(&last)) || !first.slt(last) ||
              !(last - first).isNegative())
            return;
          loop.setUpperBound(loop.getLowerBound());
          any = true;
        });
        return any;
      },
      200));
}

TEST(FuzzPrograms, FindOperandsOfTheIterationBefore) {
  // What a loop carries to its products is taken for what it begins with.
  const auto isOperand = [](OpOperand &use) {
    return isa<tile::PermuteOp>(use.getOwner()) ||
           (isa<tile::DotOp>(use.getOwner()) && use.getOperandNumber() < 2);
  };
  const auto stale = [&](ModuleOp module) {
    bool any = false;
    module.walk([&](scf::ForOp loop) {
      for (auto [carried, init] : llvm::zip(loop.getRegionIterArgs(), loop.getInits()))
        if (llvm::any_of(carried.getUses(), isOperand)) {
          carried.replaceUsesWithIf(init, isOperand);
          any = true;
        }
    });
    return any;
  };
  EXPECT_TRUE(isFound(Focus::Chains, "sm_90a", stale, 40));
}

TEST(FuzzPrograms, FindConstantsFoldedToSomethingElse) {
  // Operations on constants alone are taken for zero.
  EXPECT_TRUE(isFound(Focus::Constants, "sm_80", [](ModuleOp module) {
    bool any = false;
    module.walk([&](Operation *op) {
      if (!isa<arith::MulIOp, arith::DivFOp, arith::CmpFOp, arith::CmpIOp, arith::SubFOp,
               arith::XOrIOp>(op) ||
          !llvm::all_of(op->getOperands(), [](Value operand) {
            return operand.getDefiningOp<arith::ConstantOp>() != nullptr;
          }))
        return;
      OpBuilder builder(op);
      TypedAttr none = builder.getZeroAttr(op->getResult(0).getType());
      op->getResult(0).replaceAllUsesWith(
          arith::ConstantOp::create(builder, op->getLoc(), none).getResult());
      any = true;
    });
    return any;
  }));
}

bool isPointer(Type type) { return isa<tile::PtrType>(tile::elementType(type)); }

TEST(FuzzPrograms, DrawWhatHazardsAreMadeOf) {
  std::map<std::string, unsigned> drawn;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    ContextLease context;
    OwningOpRef<ModuleOp> module = make(context, seed);
    std::map<std::string, bool> has;
    module->walk([&](Operation *op) {
      const bool inLoop = op->getParentOfType<scf::ForOp>() != nullptr;
      if (isa<tile::StoreOp, tile::StoreBlockOp>(op))
        has["store in a loop"] |= inLoop;
      if (auto store = dyn_cast<tile::StoreOp>(op))
        has["store of a scalar"] |= isa<tile::PtrType>(store.getPtr().getType());
      if (auto select = dyn_cast<arith::SelectOp>(op); select && isPointer(select.getType()))
        has[isa<tile::PtrType>(select.getType()) ? "pointer selected"
                                                 : "tile of pointers selected"] = true;
      if (auto branch = dyn_cast<scf::IfOp>(op))
        has["pointer from a branch"] |= llvm::any_of(branch.getResultTypes(), isPointer);
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        // The first two things carried change places.
        has["pointers exchanged"] |= loop.getNumResults() == 2 && isPointer(loop.getType(0)) &&
                                     loop.getYieldedValues()[0] == loop.getRegionIterArg(1);
        has["pointers that move on"] |= llvm::any_of(loop.getYieldedValues(), [](Value value) {
          return isPointer(value.getType()) && value.getDefiningOp<tile::AddPtrOp>();
        });
      }
      if (isa<tile::DotOp>(op) && inLoop)
        has["dot in a loop"] = true;
      has["assume in a loop"] |= isa<tile::AssumeOp>(op) && inLoop;
      has["hint"] |= isa<tile::HintOp>(op);
      has["barrier"] |= isa<tile::BarrierOp>(op);
      has["atomic"] |= isa<tile::AtomicRMWOp>(op);
      if (auto function = dyn_cast<func::FuncOp>(op))
        has["function of pointers"] |=
            function.isPrivate() && isPointer(function.getArgumentTypes().front());
    });
    for (auto [what, is] : has)
      drawn[what] += is;
  }
  EXPECT_EQ(drawn.size(), 13u);
  for (auto [what, times] : drawn)
    EXPECT_GE(times, 10u) << what;
}

} // namespace
