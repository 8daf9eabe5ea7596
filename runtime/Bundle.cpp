// Looking into an open bundle: which variant a launch takes, and why it takes none.
#include "runtime/Bundle.h"
#include "runtime/Chip.h"
#include "runtime/DeclaredArguments.h"
#include "runtime/Zstd.h"
#include <algorithm>
#include <sectile/bundle.h>
#include <sectile/error.h>
#include <set>
#include <tuple>

namespace sectile::runtime {
namespace {

// How many facts code assumes: the more, the better it is made for the arguments.
size_t countFacts(const LaunchPlan &plan) {
  size_t count = 0;
  for (const ArgumentFacts &facts : plan.arguments)
    count += (facts.divisor > 1) + (facts.divisor > 8) + (facts.low != ArgumentFacts().low) +
             (facts.low == facts.high) + (facts.distinct > 0);
  return count;
}

// "sm_80, sm_90a".
template <class Texts> std::string listed(const Texts &texts) {
  std::string list;
  for (const auto &text : texts)
    (list += list.empty() ? "" : ", ") += text;
  return list;
}

} // namespace

int suitability(std::string_view code, std::string_view wanted) {
  if (code == wanted)
    return suitsExactly;
  const Chip *chip = Chip::find(wanted), *other = Chip::find(code);
  if (!chip || !other || chip->vendor != Vendor::Nvidia || other->vendor != Vendor::Nvidia ||
      other->isForOneChip)
    return 0;
  return other < chip ? 1 + static_cast<int>(other - Chip::all().data()) : 0;
}

std::string virtualTarget(const std::string &chip) { return "virtual:" + chip; }

std::string bundleTargetOf(const DeviceImpl &device) {
  const bool isVirtual = device.codeKey().find(" virtual on ") != std::string::npos;
  return isVirtual ? virtualTarget(device.target) : device.target;
}

BundleKey bundleKeyOf(const CodeRequest &request) {
  const detail::PackedLaunch &packed = request.packed;
  return {.kernel = std::string(request.kernel.name),
          .signature = {request.kernel.args.begin(), request.kernel.args.end()},
          .target = bundleTargetOf(request.device),
          .warps = request.options.warps,
          .stages = request.options.stages,
          .longAxis = request.longAxis,
          .debug = request.options.debug,
          .checked = request.options.checked,
          .maxRegisters = request.options.maxRegisters,
          .minPrograms = request.options.minPrograms,
          .configuration = {packed.configWords, packed.configWords + packed.configCount},
          .described = packed.describeConfig ? packed.describeConfig(packed.config) : ""};
}

const Bundle::Kernel *Bundle::kernelFor(const BundleKey &key) const {
  for (const Kernel &kernel : kernels)
    if (kernel.name == key.kernel && kernel.signature == key.signature)
      return &kernel;
  return nullptr;
}

size_t Bundle::countVariants() const {
  size_t count = 0;
  for (const Kernel &kernel : kernels)
    count += kernel.variants.size();
  return count;
}

bool Bundle::isCompressed() const { return std::ranges::any_of(codes, &Code::isCompressed); }

std::string Bundle::codeOf(const Variant &variant) const {
  const Code &code = codes[variant.code];
  if (!code.isCompressed)
    return std::string(code.bytes);
  try {
    return decompressed(code.bytes, code.size);
  } catch (const InputError &error) {
    refuse(error.what());
  }
}

std::vector<Bundle::Content> Bundle::contents(bool withCode) const {
  std::vector<Content> all;
  for (const Kernel &kernel : kernels)
    for (const Variant &variant : kernel.variants) {
      Content &one = all.emplace_back(Content{{.kernel = std::string(kernel.name),
                                               .signature = kernel.signature,
                                               .target = std::string(variant.target),
                                               .warps = variant.warps,
                                               .stages = variant.stages,
                                               .longAxis = variant.longAxis,
                                               .debug = variant.debug,
                                               .checked = variant.checked,
                                               .maxRegisters = variant.maxRegisters,
                                               .minPrograms = variant.minPrograms,
                                               .configuration = variant.configuration,
                                               .described = std::string(variant.described)},
                                              variant.artifact,
                                              codes[variant.code].size});
      if (withCode)
        one.artifact.bytes = codeOf(variant);
    }
  return all;
}

std::shared_ptr<const Artifact> Bundle::find(const CodeRequest &request) const {
  const BundleKey key = bundleKeyOf(request);
  const Kernel *kernel = kernelFor(key);
  if (!kernel)
    return nullptr;
  const Variant *best = nullptr;
  std::tuple<int, bool, size_t, bool> bestRank; // target, debug as wanted, facts, PTX
  for (const Variant &variant : kernel->variants) {
    const int suits = suitability(variant.target, key.target);
    if (!suits || variant.warps != key.warps || variant.stages != key.stages ||
        variant.longAxis != key.longAxis || variant.checked != key.checked ||
        variant.maxRegisters != key.maxRegisters || variant.minPrograms != key.minPrograms ||
        variant.configuration != key.configuration)
      continue;
    const Artifact &artifact = variant.artifact;
    if ((suits < suitsExactly && artifact.kind != "ptx") ||
        !brokenFact(artifact.plan, {request.packed.words, request.masks.size()}).empty())
      continue;
    const std::tuple rank(suits, variant.debug == key.debug, countFacts(artifact.plan),
                          artifact.kind == "ptx");
    if (best && rank <= bestRank)
      continue;
    best = &variant;
    bestRank = rank;
  }
  if (!best)
    return nullptr;
  request.activities.done(Activity::Kind::cache, "bundle");
  auto artifact = std::make_shared<Artifact>(best->artifact);
  try {
    artifact->bytes = codeOf(*best);
    if (artifact->kind == "ptx" && best->target == key.target)
      for (const Variant &variant : kernel->variants)
        if (isMachineCodeOf(variant, *best))
          artifact->machineCode = codeOf(variant);
  } catch (const InputError &error) {
    throw LaunchError("kernel '" + key.kernel + "': " + error.what());
  }
  return artifact;
}

bool Bundle::isMachineCodeOf(const Variant &variant, const Variant &ptx) {
  return variant.artifact.kind == "cubin" && variant.target == ptx.target &&
         variant.warps == ptx.warps && variant.stages == ptx.stages &&
         variant.longAxis == ptx.longAxis && variant.debug == ptx.debug &&
         variant.maxRegisters == ptx.maxRegisters && variant.minPrograms == ptx.minPrograms &&
         variant.checked == ptx.checked && variant.configuration == ptx.configuration &&
         variant.artifact.plan == ptx.artifact.plan &&
         variant.artifact.irHash == ptx.artifact.irHash;
}

std::string Bundle::whyNone(const CodeRequest &request) const {
  const std::string otherwise =
      request.kernel.function ? ", or link Sectile::sectile, which compiles here" : "";
  const BundleKey key = bundleKeyOf(request);
  const Kernel *kernel = kernelFor(key);
  if (!kernel) {
    std::string others;
    for (const Kernel &one : kernels)
      if (one.name == key.kernel)
        others += (others.empty() ? "" : " and ") + declared(one.signature);
    return name_ +
           (others.empty()
                ? " does not have it"
                : " has it for arguments " + others + ", not for " + declared(key.signature)) +
           ": add it to the bundle" + otherwise;
  }
  std::set<std::string_view> targets;
  std::set<std::string> broken;
  bool hasOptions = false;
  for (const Variant &variant : kernel->variants) {
    targets.insert(variant.target);
    if (!suitability(variant.target, key.target) || variant.configuration != key.configuration ||
        variant.warps != key.warps || variant.stages != key.stages ||
        variant.maxRegisters != key.maxRegisters || variant.minPrograms != key.minPrograms)
      continue;
    hasOptions = true;
    if (std::string fact =
            brokenFact(variant.artifact.plan, {request.packed.words, request.masks.size()});
        !fact.empty())
      broken.insert(std::move(fact));
  }
  if (std::ranges::none_of(targets, [&](auto target) { return suitability(target, key.target); }))
    return name_ + " has no code of it for " + key.target + " (but for " + listed(targets) +
           "): build the bundle for " + key.target + ", too" + otherwise;
  if (!hasOptions)
    return name_ + " has no code of it for " + key.target + " with " +
           (key.described.empty() ? "this configuration" : key.described) + ", " +
           std::to_string(key.warps) + " warps and " + std::to_string(key.stages) +
           " stages: add it to the bundle" + otherwise;
  if (broken.empty())
    return name_ +
           " has no code of it with this grid's long axis and these checks: add it to the "
           "bundle" +
           otherwise;
  return name_ + "'s code for " + key.target + " is for other arguments: " + listed(broken) +
         ": add these arguments to the bundle" + otherwise;
}

} // namespace sectile::runtime

void sectile::load_bundle(const std::string &path) {
  runtime::addCodeSource(runtime::Bundle::open(path));
}

void sectile::load_bundle(std::span<const std::byte> bytes, const std::string &name) {
  runtime::addCodeSource(
      runtime::Bundle::of({reinterpret_cast<const char *>(bytes.data()), bytes.size()}, name));
}
