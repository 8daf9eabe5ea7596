// Arguments, options and checks of experts' products whose operands may be codes.
#include "kernels/experts/Codes.h"
#include "kernels/references/Sample.h"
#include <sectile/error.h>

using namespace sectile;

namespace {

bool hasScales(const Invocation &call, const std::string &operand) {
  return call.has(operand + "_scales");
}

std::int64_t blocksOfDepth(const Invocation &call) {
  return ceilDiv(call.extent("K"), isMx(call.options) ? mxBlock : scaleBlock);
}
std::int64_t blocksOfColumns(const Invocation &call) {
  return isMx(call.options) ? call.extent("N") : ceilDiv(call.extent("N"), scaleBlock);
}

// Random e2m1 in pairs, or numbers as small as weights are.
void sampleMatrices(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  if (array.dtype == DType::uint8)
    sampleIntegers(0, 255)(call, array, random);
  else
    sampleNormal(0.2)(call, array, random);
}
// Of e8m0 a few powers of two, which leave products as small.
void sampleScales(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  if (array.dtype == DType::uint8)
    sampleIntegers(122, 126)(call, array, random);
  else
    sampleUniform(0.5, 1.5)(call, array, random);
}

} // namespace

bool sectile::isMx(const OptionValues &options) { return options.choice("w_format") == "mxfp4"; }

DType sectile::resultOf(const Invocation &call, const char *operand) {
  const DType dtype = call.dtype(operand);
  return isFp8(dtype) ? DType::bfloat16 : dtype;
}

std::vector<ArgumentRow> sectile::codedOperands(const char *operand, const char *rows,
                                                const char *doc, const char *matrices) {
  const auto type = [operand](const Invocation &call) {
    return isMx(call.options) ? DType::uint8 : call.dtype(operand);
  };
  return {{std::string(operand) + ": [" + rows + ", K] f16|bf16|f32|f8e4m3", doc},
          {"w: [G, Kw, N]",
           std::string(matrices) + "[G, N, Kw] with trans_w; like " + operand +
               " with Kw = K, or of mxfp4 u8 with Kw = K / 2: two e2m1 in a byte, neighbours along "
               "K, the first in the low half",
           {.stored = swappedBy("trans_w"), .dtype_by = type, .sample = sampleMatrices}}};
}

std::vector<ArgumentRow> sectile::codeScales(const char *operand, const char *rows) {
  const auto type = [](const Invocation &call) {
    return call.dtype("w") == DType::uint8 ? DType::uint8 : DType::float32;
  };
  return {{std::string(operand) + "_scales?: [" + rows + ", Sk] f32",
           std::string("of 128 neighbours in a row of ") + operand + "; Sk = K / 128, rounded up",
           {.sample = sampleUniform(0.5, 1.5)}},
          {"w_scales?: [G, Sw, Sn]",
           "f32, of 128 by 128 elements of w: Sw = K / 128, Sn = N / 128, rounded up; of mxfp4 u8, "
           "e8m0 of 32 neighbours along K: Sw = K / 32, rounded up, Sn = N; [G, Sn, Sw] with "
           "trans_w",
           {.stored = swappedBy("trans_w"), .dtype_by = type, .sample = sampleScales}}};
}

void sectile::specifyExperts(KernelSpec &spec, const char *operand) {
  const std::string rows = operand;
  // In front of trans_w, whose default follows from it.
  spec.add_options(
      {{"w_format: same|mxfp4",
        "same: w is like " + rows + "; mxfp4: e2m1 with e8m0 scales; default mxfp4 for u8",
        [](const Invocation &call) { return call.dtype("w") == DType::uint8 ? "mxfp4" : "same"; }},
       {"trans_w: flag",
        "the experts' matrices, and their scales, are stored transposed; default true for fp8 and "
        "mxfp4, else false",
        [operand](const Invocation &call) {
          return isMx(call.options) || isFp8(call.dtype(operand)) ? "true" : "false";
        }},
       precisionOption});
  specifyGrouped(spec, operand, /*isGradient=*/false, [rows](const Invocation &call) {
    const bool hasMx = isMx(call.options);
    return GroupedCoding{.isMx = hasMx,
                         .isScaled = hasScales(call, rows) || (!hasMx && hasScales(call, "w")),
                         .liesAlongK = call.options.flag("trans_w")};
  });
  spec.follow = [](Invocation &call) {
    call.extents["Kw"] = call.extent("K") / (isMx(call.options) ? 2 : 1);
    call.extents["Sk"] = ceilDiv(call.extent("K"), scaleBlock);
    call.extents["Sw"] = blocksOfDepth(call);
    call.extents["Sn"] = blocksOfColumns(call);
  };
}

void sectile::checkExperts(const Invocation &call, const char *operand) {
  const std::string rows = operand;
  if (call.extent("G") == 0 && call.extent("M") != 0)
    refuse(call, "there are rows, but there is no expert");
  const std::int64_t k = call.extent("K"), stored = call.extent("Kw");
  const auto expect = [&](const char *axis, const std::string &argument, std::int64_t wanted,
                          const std::string &of, const std::string &what) {
    if (call.has(argument) && call.extent(axis) != wanted)
      refuse(call, argument, " has ", call.extent(axis), " along ", axis, ", but ", of, " has ",
             wanted, " ", what);
  };
  if (isMx(call.options)) {
    const DType dtype = call.dtype(operand);
    if (dtype != DType::bfloat16 && dtype != DType::float8_e4m3)
      refuse(call, rows, " is ", name_of(dtype), ", but w of mxfp4 goes with bf16 or f8e4m3");
    if (!call.options.flag("trans_w"))
      refuse(call, "w of mxfp4 is [G, N, K / 2], with neighbours along K in a byte: leave trans_w "
                   "true");
    if (!call.has("w_scales"))
      refuse(call, "w of mxfp4 needs w_scales, [G, N, K / 32] of e8m0");
    if (k % 2 != 0)
      refuse(call, "K is ", k,
             ", but a byte of mxfp4 holds two of K: it must be "
             "even");
  }
  if (isMx(call.options) && 2 * stored != k)
    refuse(call, "K is ", k, " in ", rows, ", but ", 2 * stored,
           " in w of mxfp4, which has two in each byte");
  if (!isMx(call.options) && stored != k) {
    const bool isSwapped = call.options.flag("trans_w");
    refuse(call, "K is ", k, " in ", rows, ", but ", stored, " in w; w is ",
           (isSwapped ? "[G, N, K]" : "[G, K, N]"), ", or ",
           (isSwapped ? "[G, K, N] with trans_w=false" : "[G, N, K] with trans_w=true"));
  }
  expect("Sk", rows + "_scales", ceilDiv(k, scaleBlock), "K", "blocks of 128");
  expect("Sw", "w_scales", blocksOfDepth(call), "K",
         isMx(call.options) ? "blocks of 32" : "blocks of 128");
  expect("Sn", "w_scales", blocksOfColumns(call), "N",
         isMx(call.options) ? "columns" : "blocks of 128");
}

void sectile::checkDecoding(const Use &use, DType operand) {
  if (use.field("decode_first") && !(isMx(use.call.options) && operand == DType::bfloat16))
    refuse(use.call, "configuration field 'decode_first' is 1, but only w of mxfp4 beside bf16 is "
                     "decoded first");
}
