// Constraints of inline assembly, as LLVM writes them: "=r,r,l,~{memory}".
#include "ir/tile/Assembly.h"
#include "ir/tile/Tile.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace sectile::tile {
namespace {

/// The letters of outputs and inputs; `0` to `9` repeats an output's.
struct Letters {
  std::string outputs, inputs;
};

std::optional<Letters> lettersOf(StringRef constraints, std::string &why) {
  Letters letters;
  for (StringRef one : llvm::split(constraints, ',')) {
    one = one.trim();
    if (one.empty() && constraints.trim().empty())
      break;
    if (one.consume_front("~"))
      continue;
    bool isOutput = one.consume_front("=");
    one.consume_front("&");
    if (one.empty() || (!isOutput && one.starts_with("+"))) {
      why = "the constraints are as in \"=r,r,f\": results first, each with =, then operands";
      return std::nullopt;
    }
    if (isOutput && !letters.inputs.empty()) {
      why = "the constraints of results, with =, come before those of operands";
      return std::nullopt;
    }
    char letter = one.front();
    if (llvm::isDigit(letter)) {
      unsigned number = 0;
      if (isOutput || one.getAsInteger(10, number) || number >= letters.outputs.size()) {
        why = ("the constraint " + one + " repeats that of a result, of which there are " +
               Twine(letters.outputs.size()))
                  .str();
        return std::nullopt;
      }
      letter = letters.outputs[number];
    }
    (isOutput ? letters.outputs : letters.inputs) += letter;
  }
  return letters;
}

bool distribute(StringRef letters, unsigned pack, TypeRange types, StringRef what,
                SmallVectorImpl<AssemblyRegisters::Value> &values, std::string &why) {
  size_t needed = 0;
  for (Type type : types) {
    unsigned bits = std::max(8u, elementType(type).getIntOrFloatBitWidth());
    AssemblyRegisters::Value &value = values.emplace_back();
    value.bits = std::max(32u, bits);
    value.perWord = value.bits / bits;
    size_t words = (pack + value.perWord - 1) / value.perWord;
    value.letters = letters.substr(std::min(needed, letters.size()), words).str();
    needed += words;
    for (char letter : value.letters) {
      bool fits = letter == 'f' || letter == 'r'   ? value.bits == 32
                  : letter == 'd' || letter == 'l' ? value.bits == 64
                                                   : letter != 'h';
      if (fits)
        continue;
      why = ("the constraint " + Twine(letter) + " is not one of " + Twine(value.bits) +
             " bits, which " + Twine(what) + " of " + Twine(bits) + " bits come in")
                .str();
      return false;
    }
  }
  if (needed != letters.size()) {
    why = ("the constraints name " + Twine(letters.size()) + " registers for " + what +
           ", and these fill " + Twine(needed) + " (elements below 32 bits share 32-bit registers)")
              .str();
    return false;
  }
  return true;
}

} // namespace

std::optional<AssemblyRegisters> AssemblyRegisters::get(StringRef constraints, unsigned pack,
                                                        TypeRange results, TypeRange operands,
                                                        std::string &why) {
  std::optional<Letters> letters = lettersOf(constraints, why);
  AssemblyRegisters registers;
  if (!letters || !distribute(letters->outputs, pack, results, "results", registers.results, why) ||
      !distribute(letters->inputs, pack, operands, "operands", registers.operands, why))
    return std::nullopt;
  return registers;
}

std::optional<Vendor> vendorOfConstraints(StringRef constraints) {
  std::string why;
  if (std::optional<Letters> letters = lettersOf(constraints, why))
    for (char letter : letters->outputs + letters->inputs) {
      if (StringRef("rlfdhbqn").contains(letter))
        return Vendor::Nvidia;
      if (StringRef("vsaSVA").contains(letter))
        return Vendor::Amd;
    }
  return std::nullopt;
}

} // namespace sectile::tile
