// The vendors' pseudo-intrinsics together, and what is read off their names.
#include "codegen/common/PseudoIntrinsics.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace sectile {

void lowerPseudoIntrinsics(Module &module) {
  lowerNvidiaPseudoIntrinsics(module);
  lowerAmdPseudoIntrinsics(module);
}

namespace pseudo {
namespace {

bool takeNumber(StringRef &text, StringRef letter, unsigned &number) {
  return text.consume_front(letter) && !text.consumeInteger(10, number);
}

bool isHalf(StringRef type) { return type == "f16" || type == "bf16"; }
bool isFp8(StringRef type) { return type == "e4m3" || type == "e5m2"; }
bool isByte(StringRef type) { return type == "s8" || type == "u8"; }

} // namespace

std::optional<Wgmma> Wgmma::parse(StringRef name) {
  SmallVector<StringRef> parts;
  if (!name.consume_front(nvWgmma))
    return std::nullopt;
  name.split(parts, '.');
  if (parts.size() != 6)
    return std::nullopt;
  Wgmma wgmma;
  unsigned m = 0;
  StringRef shape = parts[0], source = parts[4], transposed = parts[5];
  if (!takeNumber(shape, "m", m) || !takeNumber(shape, "n", wgmma.n) ||
      !takeNumber(shape, "k", wgmma.k) || !shape.empty() || m != 64)
    return std::nullopt;
  wgmma.sum = parts[1];
  wgmma.a = parts[2];
  wgmma.b = parts[3];
  wgmma.aInRegisters = source == "rs";
  if (transposed.size() != 2 || transposed.find_first_not_of("01") != StringRef::npos ||
      (source != "rs" && source != "ss"))
    return std::nullopt;
  wgmma.transposeA = transposed[0] == '1';
  wgmma.transposeB = transposed[1] == '1';

  const bool halves = isHalf(wgmma.a) && wgmma.a == wgmma.b;
  const bool words = wgmma.a == "tf32" && wgmma.b == "tf32";
  const bool fp8 = isFp8(wgmma.a) && isFp8(wgmma.b);
  const bool bytes = isByte(wgmma.a) && isByte(wgmma.b);
  if (!halves && !words && !fp8 && !bytes)
    return std::nullopt;
  const bool sums = bytes ? wgmma.sum == "s32"
                          : wgmma.sum == "f32" || (wgmma.sum == "f16" && (wgmma.a == "f16" || fp8));
  const unsigned k = halves ? 16 : words ? 8 : 32;
  const bool width = wgmma.n >= 8 && wgmma.n <= 256 && wgmma.n % 8 == 0 &&
                     (!bytes || wgmma.n <= 24 || wgmma.n % 16 == 0);
  const bool transposes =
      halves ? !(wgmma.transposeA && wgmma.aInRegisters) : !wgmma.transposeA && !wgmma.transposeB;
  if (!sums || wgmma.k != k || !width || !transposes)
    return std::nullopt;
  return wgmma;
}

std::optional<WgmmaWait> WgmmaWait::parse(StringRef name) {
  if (!name.consume_front(nvWgmmaWait))
    return std::nullopt;
  auto [groups, sums] = name.split('.');
  WgmmaWait wait;
  wait.isFloat = sums.ends_with("f32");
  if (!sums.consume_back("f32") && !sums.consume_back("b32"))
    return std::nullopt;
  if (groups.getAsInteger(10, wait.groups) || wait.groups > 7 ||
      sums.getAsInteger(10, wait.registers))
    return std::nullopt;
  return wait;
}

} // namespace pseudo
} // namespace sectile
