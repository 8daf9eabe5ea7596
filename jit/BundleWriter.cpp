// Writes bundles.
#include "jit/BundleWriter.h"
#include "runtime/BundleFormat.h"
#include "runtime/Checksum.h"
#include <algorithm>
#include <sectile/error.h>
#include <sectile/version.h>
#include <stdexcept>

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

namespace sectile::runtime {

using namespace bundle;

namespace {

// Of the contents, whatever is said about them.
Identity identityOf(std::span<const std::string_view> sections) {
  std::string all;
  ByteWriter out(all);
  for (const std::string_view section : sections)
    out.text(section);
  const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  return {{hash.high64, hash.low64}};
}

// As small as can be: it is done once, and reading takes no longer.
std::string compressed(const std::string &code) {
  std::string frame(ZSTD_compressBound(code.size()), '\0');
  const size_t size =
      ZSTD_compress(frame.data(), frame.size(), code.data(), code.size(), ZSTD_maxCLevel());
  if (ZSTD_isError(size))
    throw std::runtime_error(std::string("zstd: ") + ZSTD_getErrorName(size));
  frame.resize(size);
  return frame;
}

} // namespace

std::string aboutBundles() {
  return std::string("{\"sectile\":\"") + version() + "\",\"llvm\":\"" + llvm_version() + "\"}";
}

void BundleWriter::add(const BundleKey &key, const Artifact &artifact) {
  auto kernel = std::ranges::find_if(kernels, [&](const Kernel &one) {
    return one.name == key.kernel && one.signature == key.signature;
  });
  if (kernel == kernels.end())
    kernel = kernels.insert(kernel, {key.kernel, key.signature});
  const auto [code, isNew] =
      codeNumbers.emplace(artifact.bytes, static_cast<uint32_t>(codes.size()));
  if (isNew)
    codes.push_back(artifact.bytes);
  Artifact rest = artifact;
  rest.bytes.clear();
  // Not of the code, and other at each compile.
  rest.compileMilliseconds = 0;
  rest.remarks.clear();
  std::string bytes;
  ByteWriter out(bytes);
  out.number(static_cast<uint32_t>(kernel - kernels.begin()));
  out.text(key.target);
  for (const unsigned number :
       {key.warps, key.stages, key.longAxis, key.maxRegisters, key.minPrograms})
    out.number(static_cast<uint32_t>(number));
  out.number((key.debug ? debugFlag : 0) | (key.checked ? checkedFlag : 0));
  out.number(static_cast<uint64_t>(key.configuration.size()));
  for (const uint64_t word : key.configuration)
    out.number(word);
  Artifact assumed;
  assumed.kind = artifact.kind;
  assumed.plan.arguments = artifact.plan.arguments;
  const auto [known, isFirst] = irHashes.emplace(bytes + serialize(assumed), artifact.irHash);
  if (!isFirst && known->second != artifact.irHash)
    throw InputError("two kernels of the bundle are named '" + key.kernel +
                     "', and take the same types of arguments and the same configuration: a launch "
                     "could not tell them apart. Give them different names, or make what they "
                     "differ in, such as a captured variable, a field of the configuration");
  out.text(key.described);
  out.text(serialize(rest));
  out.number(code->second);
  if (std::ranges::find(variants, bytes) == variants.end())
    variants.push_back(std::move(bytes));
}

void BundleWriter::add(const BundledChoice &choice) {
  if (std::ranges::find(choices, choice) == choices.end())
    choices.push_back(choice);
}

std::string BundleWriter::bytes() const {
  std::string kernelBytes, variantBytes, codeBytes, choiceBytes;
  ByteWriter kernelOut(kernelBytes), variantOut(variantBytes), codeOut(codeBytes);
  kernelOut.number(static_cast<uint64_t>(kernels.size()));
  for (const Kernel &kernel : kernels) {
    kernelOut.text(kernel.name);
    kernelOut.number(static_cast<uint64_t>(kernel.signature.size()));
    for (const detail::ArgSpec &spec : kernel.signature)
      for (const uint8_t byte :
           {static_cast<uint8_t>(spec.kind), static_cast<uint8_t>(spec.dtype), spec.rank,
            static_cast<uint8_t>(spec.readonly | spec.varying << 1)})
        kernelOut.number(byte);
  }
  variantOut.number(static_cast<uint64_t>(variants.size()));
  for (const std::string &variant : variants)
    variantBytes += variant;
  codeOut.number(static_cast<uint64_t>(codes.size()));
  for (const std::string &code : codes) {
    codeOut.number(compresses ? zstdFrame : asIs);
    codeOut.text(compresses ? compressed(code) : code);
    if (compresses)
      codeOut.number(static_cast<uint64_t>(code.size()));
  }
  ByteWriter choiceOut(choiceBytes);
  choiceOut.number(static_cast<uint64_t>(choices.size()));
  for (const BundledChoice &choice : choices) {
    for (const std::string *text :
         {&choice.kernel, &choice.target, &choice.kind, &choice.config, &choice.order})
      choiceOut.text(*text);
    choiceOut.number(uint32_t{choice.isTuned});
    choiceOut.number(static_cast<uint64_t>(choice.bucket.size()));
    for (const auto &[axis, extent] : choice.bucket) {
      choiceOut.text(axis);
      choiceOut.number(extent);
    }
  }

  const std::pair<SectionKind, std::string_view> sections[] = {{kernelsKind, kernelBytes},
                                                               {variantsKind, variantBytes},
                                                               {codesKind, codeBytes},
                                                               {choicesKind, choiceBytes},
                                                               {aboutKind, about}};
  const std::string_view contents[] = {kernelBytes, variantBytes, codeBytes, choiceBytes};
  std::string checked;
  ByteWriter out(checked);
  out.number(static_cast<uint32_t>(std::size(sections)));
  out.number(artifactFormat());
  out.number(identityOf(contents));
  out.number(static_cast<uint64_t>(SECTILE_VERSION));
  uint64_t offset = headSize + std::size(sections) * sectionSize;
  for (const auto &[kind, section] : sections) {
    out.number(static_cast<uint32_t>(kind));
    out.number(uint32_t{0});
    out.number(offset);
    out.number(static_cast<uint64_t>(section.size()));
    offset += section.size();
  }
  for (const auto &[kind, section] : sections)
    checked += section;

  std::string file(magic);
  ByteWriter head(file);
  head.number(format);
  head.number(uint32_t{0});
  head.number(offset);
  head.number(checksumOf(checked));
  return file + checked;
}

} // namespace sectile::runtime
