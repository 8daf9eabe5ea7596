// Conversions of small integers by arithmetic give the bits of those that they replace.
#include "codegen/nvidia/SmallIntegers.h"
#include "llvm/Analysis/ConstantFolding.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/SourceMgr.h"
#include <gtest/gtest.h>
#include <map>

using namespace llvm;

namespace {

class SmallIntegers : public testing::Test {
protected:
  std::unique_ptr<Module> parse(const std::string &text) {
    SMDiagnostic error;
    std::unique_ptr<Module> module = parseAssemblyString(text, error, context);
    EXPECT_TRUE(module) << error.getMessage().str() << '\n' << text;
    return module;
  }

  /// What a function of one block returns.
  static Constant *run(Module &module, ArrayRef<Constant *> arguments) {
    Function &function = *module.begin();
    std::map<Value *, Constant *> known;
    for (Argument &argument : function.args())
      known[&argument] = arguments[argument.getArgNo()];
    const auto of = [&](Value *value) {
      auto *constant = dyn_cast<Constant>(value);
      return constant ? constant : known.at(value);
    };
    for (Instruction &instruction : instructions(function)) {
      if (auto *end = dyn_cast<ReturnInst>(&instruction))
        return of(end->getReturnValue());
      SmallVector<Constant *> operands;
      for (Value *operand : instruction.operands())
        operands.push_back(of(operand));
      known[&instruction] =
          ConstantFoldInstOperands(&instruction, operands, module.getDataLayout());
      if (!known[&instruction])
        return nullptr;
    }
    return nullptr;
  }

  /// Compares for all codes of a byte, and for scales of all kinds.
  void expectSame(const std::string &text, bool converts = true) {
    SCOPED_TRACE(text);
    const auto before = parse(text), after = parse(text);
    sectile::convertSmallIntegers(*after, true);
    ASSERT_FALSE(verifyModule(*after, &errs()));
    bool has = false;
    for (Instruction &instruction : instructions(*after->begin()))
      has |= isa<UIToFPInst, SIToFPInst>(instruction);
    EXPECT_EQ(has, !converts);
    Function &function = *before->begin();
    for (unsigned code = 0; code < 256; ++code) {
      SmallVector<Constant *> arguments{ConstantInt::get(function.getArg(0)->getType(), code)};
      if (function.arg_size() == 1) {
        EXPECT_EQ(run(*before, arguments), run(*after, arguments)) << code;
        continue;
      }
      Type *type = function.getArg(1)->getType();
      for (unsigned bits = code; bits < 65536; bits += code == 41 ? 31 : 1021) {
        const APFloat scale(type->getFltSemantics(), APInt(16, bits));
        if (scale.isNaN())
          continue;
        arguments.resize(1);
        arguments.push_back(ConstantFP::get(context, scale));
        ASSERT_EQ(run(*before, arguments), run(*after, arguments)) << code << ' ' << bits;
      }
    }
  }

  LLVMContext context;
};

TEST_F(SmallIntegers, BecomeFloats) {
  for (const char *body :
       {"%f = uitofp i8 %x to float", "%f = sitofp i8 %x to float",
        "%y = and i8 %x, 15\n%f = uitofp i8 %y to float",
        "%y = and i8 %x, 15\n%z = add i8 %y, -8\n%f = sitofp i8 %z to float",
        "%y = lshr i8 %x, 4\n%z = add nsw i8 %y, -8\n%f = sitofp i8 %z to float",
        "%y = and i8 %x, 127\n%z = add i8 %y, -128\n%f = sitofp i8 %z to float",
        "%y = shl i8 %x, 4\n%z = ashr exact i8 %y, 4\n%f = sitofp i8 %z to float",
        "%y = ashr i8 %x, 5\n%f = sitofp i8 %y to float",
        // These may wrap.
        "%z = add i8 %x, -8\n%f = sitofp i8 %z to float",
        "%y = and i8 %x, 127\n%z = add i8 %y, 1\n%f = sitofp i8 %z to float",
        "%y = zext i8 %x to i16\n%z = sub i16 0, %y\n%f = sitofp i16 %z to float",
        "%y = zext i8 %x to i64\n%f = sitofp i64 %y to float",
        "%y = zext i8 %x to i32\n%z = add i32 %y, -300\n%f = sitofp i32 %z to float"})
    expectSame(std::string("define float @f(i8 %x) {\n") + body + "\nret float %f\n}");
  for (const char *body : {"%f = uitofp i8 %x to half", "%f = sitofp i8 %x to half",
                           "%y = lshr i8 %x, 4\n%z = add i8 %y, -8\n%f = sitofp i8 %z to half"})
    expectSame(std::string("define half @f(i8 %x) {\n") + body + "\nret half %f\n}");
}

TEST_F(SmallIntegers, ThatMayBeLargeStay) {
  for (const char *body :
       {"%y = zext i8 %x to i32\n%z = mul i32 %y, 65537\n%f = uitofp i32 %z to float",
        "%y = sext i8 %x to i32\n%z = mul i32 %y, 65537\n%f = sitofp i32 %z to float",
        "%y = zext i8 %x to i32\n%z = add i32 %y, -9000000\n%f = sitofp i32 %z to float"})
    expectSame(std::string("define float @f(i8 %x) {\n") + body + "\nret float %f\n}", false);
}

// A byte is two codes of four bits, or one beside its neighbour.
TEST_F(SmallIntegers, ScaledBecomePairs) {
  const char *codes[] = {
      "%a = and i8 %x, 15\n%b = lshr i8 %x, 4\n"
      "%fa = uitofp i8 %a to float\n%fb = uitofp i8 %b to float\n",
      "%a = and i8 %x, 15\n%b = lshr i8 %x, 4\n%da = add i8 %a, -8\n%db = add i8 %b, -8\n"
      "%fa = sitofp i8 %da to float\n%fb = sitofp i8 %db to float\n",
      "%a = and i8 %x, 7\n%b = lshr i8 %x, 6\n%da = add i8 %a, -4\n"
      "%fa = sitofp i8 %da to float\n%fb = uitofp i8 %b to float\n",
      "%a = and i8 %x, 63\n%b = lshr i8 %x, 1\n"
      "%fa = uitofp i8 %a to float\n%fb = uitofp i8 %b to float\n",
      "%a = xor i8 %x, 85\n%fa = sitofp i8 %x to float\n%fb = sitofp i8 %a to float\n"};
  for (const char *type : {"half", "bfloat"})
    for (const char *code : codes) {
      std::string text = std::string("define <2 x T> @f(i8 %x, T %s) {\n") + code +
                         "%sf = fpext T %s to float\n"
                         "%pa = fmul float %fa, %sf\n%pb = fmul float %sf, %fb\n"
                         "%ta = fptrunc float %pa to T\n%tb = fptrunc float %pb to T\n"
                         "%v = insertelement <2 x T> poison, T %ta, i64 0\n"
                         "%w = insertelement <2 x T> %v, T %tb, i64 1\nret <2 x T> %w\n}";
      for (std::size_t at; (at = text.find('T')) != std::string::npos;)
        text.replace(at, 1, type);
      expectSame(text);
      // Whole bytes have more bits than a bfloat.
      const bool isPair = type[0] == 'h' || code != std::end(codes)[-1];
      const auto module = parse(text);
      sectile::convertSmallIntegers(*module, true);
      bool hasVector = false;
      for (Instruction &instruction : instructions(*module->begin()))
        hasVector |=
            instruction.getOpcode() == Instruction::FMul && instruction.getType()->isVectorTy();
      EXPECT_EQ(hasVector, isPair) << text;
    }
}

// Codes of four bits with a sign and without, of one byte and of two, and bytes.
TEST_F(SmallIntegers, BecomePairs) {
  struct {
    const char *code;
    bool fitsBfloat = true;
  } cases[] = {{"%a = and i8 %x, 15\n%b = lshr i8 %x, 4\n"
                "%fa = uitofp i8 %a to T\n%fb = uitofp i8 %b to T\n"},
               {"%a = and i8 %x, 15\n%b = lshr i8 %x, 4\n%da = add i8 %a, -8\n"
                "%db = add i8 %b, -8\n%fa = sitofp i8 %da to T\n%fb = sitofp i8 %db to T\n"},
               {"%a = shl i8 %x, 4\n%da = ashr exact i8 %a, 4\n%db = ashr i8 %x, 4\n"
                "%fa = sitofp i8 %da to T\n%fb = sitofp i8 %db to T\n"},
               {"%y = xor i8 %x, 85\n%da = ashr i8 %x, 4\n%db = ashr i8 %y, 4\n"
                "%fa = sitofp i8 %da to T\n%fb = sitofp i8 %db to T\n"},
               {"%y = xor i8 %x, 85\n%sa = shl i8 %x, 3\n%sb = shl i8 %y, 3\n"
                "%da = ashr i8 %sa, 5\n%db = ashr i8 %sb, 5\n"
                "%fa = sitofp i8 %da to T\n%fb = sitofp i8 %db to T\n"},
               {"%y = xor i8 %x, 85\n%la = lshr i8 %x, 2\n%lb = lshr i8 %y, 3\n"
                "%da = and i8 %la, 13\n%db = and i8 %lb, 7\n"
                "%fa = uitofp i8 %da to T\n%fb = uitofp i8 %db to T\n"},
               {"%a = xor i8 %x, 85\n%fa = sitofp i8 %x to T\n%fb = sitofp i8 %a to T\n"},
               {"%y = zext i8 %x to i16\n%s = shl i16 %y, 8\n%a = ashr i16 %s, 8\n"
                "%b = ashr i16 %s, 12\n%fa = sitofp i16 %a to T\n%fb = sitofp i16 %b to T\n",
                false},
               {"%a = xor i8 %x, 85\n%fa = uitofp i8 %x to T\n%fb = uitofp i8 %a to T\n", false},
               // One bit more than a half has room for.
               {"%y = zext i8 %x to i16\n%s = mul i16 %y, 257\n%t = xor i16 %s, 21845\n"
                "%a = ashr i16 %s, 5\n%b = ashr i16 %t, 5\n"
                "%fa = sitofp i16 %a to T\n%fb = sitofp i16 %b to T\n",
                false}};
  for (const char *type : {"half", "bfloat"})
    for (const auto &[code, fitsBfloat] : cases) {
      std::string text = std::string("define <2 x T> @f(i8 %x) {\n") + code +
                         "%v = insertelement <2 x T> poison, T %fa, i64 0\n"
                         "%w = insertelement <2 x T> %v, T %fb, i64 1\nret <2 x T> %w\n}";
      for (std::size_t at; (at = text.find('T')) != std::string::npos;)
        text.replace(at, 1, type);
      const bool isPair = type[0] == 'h' || fitsBfloat;
      expectSame(text, isPair);
      const auto module = parse(text);
      sectile::convertSmallIntegers(*module, true);
      bool hasVector = false;
      for (Instruction &instruction : instructions(*module->begin()))
        hasVector |=
            instruction.getOpcode() == Instruction::FSub && instruction.getType()->isVectorTy();
      EXPECT_EQ(hasVector, isPair) << text;
    }
}

// Codes of e2m1, two in a byte or each in one of its own, with powers of two and other numbers that
// bf16 has, in the middle of a vector.
TEST_F(SmallIntegers, ScaledCodesBecomePairs) {
  const auto textOf = [](const std::string &second, const std::string &scale) {
    std::string text = "define <2 x bfloat> @f(i8 %x, bfloat %s) {\n%a = zext i8 %x to i16\n" +
                       second + '\n' + scale + '\n';
    for (const std::string x : {"a", "b"})
      for (const std::string line :
           {"%h@ = shl i16 %@, 12", "%i@ = and i16 %h@, -32768", "%j@ = shl i16 %@, 9",
            "%k@ = and i16 %j@, 3584", "%l@ = or disjoint i16 %i@, %k@",
            "%m@ = bitcast i16 %l@ to half", "%n@ = fpext half %m@ to float",
            "%o@ = fmul contract float %n@, 1.638400e+04", "%p@ = fmul contract float %sf, %o@",
            "%q@ = fptrunc float %p@ to bfloat"}) {
        for (const char c : line)
          text += c == '@' ? x : std::string(1, c);
        text += '\n';
      }
    return text + "%u = insertelement <4 x bfloat> poison, bfloat %qa, i64 2\n"
                  "%v = insertelement <4 x bfloat> %u, bfloat %qb, i64 3\n"
                  "%w = shufflevector <4 x bfloat> %v, <4 x bfloat> poison, <2 x i32> <i32 2, i32 "
                  "3>\nret <2 x bfloat> %w\n}";
  };
  const char *given = "%sf = fpext bfloat %s to float",
             *power = "%si = bitcast bfloat %s to i16\n%sw = zext i16 %si to i32\n"
                      "%sn = icmp eq i32 %sw, 0\n%sb = shl i32 %sw, 23\n"
                      "%sg = bitcast i32 %sb to float\n"
                      "%sf = select i1 %sn, float 0x3800000000000000, float %sg",
             *wide = "%sg = fpext bfloat %s to float\n%sf = fadd float %sg, 1.0";
  const auto isPair = [&](const std::string &text) {
    const auto module = parse(text);
    sectile::convertSmallIntegers(*module, true);
    return any_of(instructions(*module->begin()), [](const Instruction &instruction) {
      return instruction.getOpcode() == Instruction::FMul && instruction.getType()->isVectorTy();
    });
  };
  for (const char *second : {"%b = lshr i16 %a, 4", "%c = xor i8 %x, 90\n%b = zext i8 %c to i16"}) {
    for (const char *scale : {given, power}) {
      expectSame(textOf(second, scale));
      EXPECT_TRUE(isPair(textOf(second, scale)));
    }
    expectSame(textOf(second, wide));
    EXPECT_FALSE(isPair(textOf(second, wide))) << "numbers of f32";
  }
  const char *large = "%b = mul i16 %a, 257";
  expectSame(textOf(large, given));
  EXPECT_FALSE(isPair(textOf(large, given)));
}

} // namespace
