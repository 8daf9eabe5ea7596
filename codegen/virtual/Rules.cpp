// How calls are replaced, the rules that both vendors share, and the look-up by name.
#include "codegen/virtual/Rules.h"
#include "llvm/IR/Module.h"
#include <algorithm>

using namespace llvm;

namespace sectile::vgpu {
namespace rules {

Result field(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  Value *value = lowering.threadField(uint32_t(rule.first), lowering.builder.getInt32Ty());
  return lowering.builder.CreateZExtOrTrunc(value, call.getType());
}

Result constant(Lowering &, CallInst &call, const IntrinsicRule &rule) {
  return ConstantInt::get(call.getType(), rule.first);
}

Result nothing(Lowering &, CallInst &call, const IntrinsicRule &) {
  if (call.getType()->isVoidTy())
    return nullptr;
  return Constant::getNullValue(call.getType());
}

Result generic(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  SmallVector<Value *> arguments(call.args());
  return lowering.builder.CreateIntrinsic(Intrinsic::ID(rule.first), {call.getType()}, arguments);
}

Result hostCall(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  const DataLayout &layout = call.getModule()->getDataLayout();
  auto plain = [&](Type *type) -> Type * {
    if (type->isFloatTy() || type->isDoubleTy() || type->isVoidTy())
      return type;
    return builder.getIntNTy(std::max(32u, unsigned(layout.getTypeSizeInBits(type))));
  };
  SmallVector<Value *> arguments;
  for (Value *argument : call.args()) {
    Type *type = argument->getType(), *wanted = plain(type);
    if (type != wanted) {
      argument = builder.CreateBitCast(argument,
                                       builder.getIntNTy(unsigned(layout.getTypeSizeInBits(type))));
      argument = builder.CreateZExt(argument, wanted);
    }
    arguments.push_back(argument);
  }
  Type *type = call.getType();
  Value *result = lowering.machineCall(rule.symbol, plain(type), arguments);
  if (result->getType() == type)
    return result;
  result = builder.CreateTrunc(result, builder.getIntNTy(unsigned(layout.getTypeSizeInBits(type))));
  return builder.CreateBitCast(result, type);
}

Result query(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  Value *value =
      lowering.machineCall(rule.symbol, lowering.builder.getInt64Ty(), {lowering.threadValue()});
  return lowering.builder.CreateZExtOrTrunc(value, call.getType());
}

namespace {

Result trap(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  Value *site = lowering.siteOf(call, SiteKind::Trap, rule.name);
  lowering.machineCall("trap", lowering.builder.getVoidTy(), {lowering.threadValue(), site});
  return nullptr;
}

Result divisor(Lowering &lowering, CallInst &call, const IntrinsicRule &) {
  lowering.checkDivisor(call, call.getArgOperand(0), "divisor_is_zero");
  return nullptr;
}

constexpr IntrinsicRule common[] = {
    {"sectile.divisor.*", divisor},
    {"llvm.trap", trap},
    {"llvm.debugtrap", trap},
    {"llvm.assume", nothing},
    {"llvm.lifetime.start.*", nothing},
    {"llvm.lifetime.end.*", nothing},
    {"llvm.experimental.noalias.scope.decl", nothing},
    {"llvm.prefetch.*", nothing},
};

} // namespace

ArrayRef<IntrinsicRule> commonRules() { return common; }

} // namespace rules

const IntrinsicRule *findIntrinsicRule(StringRef name) {
  for (ArrayRef<IntrinsicRule> table :
       {rules::commonRules(), rules::nvidiaRules(), rules::amdRules()})
    for (const IntrinsicRule &rule : table) {
      StringRef pattern = rule.name;
      if (pattern.consume_back("*") ? name.starts_with(pattern) : name == pattern)
        return &rule;
    }
  return nullptr;
}

} // namespace sectile::vgpu
