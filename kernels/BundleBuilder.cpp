// Compiling a bundle: every launch of every call, for every target, with code for less particular
// arguments beside that for these.
#include "kernels/BundleBuilder.h"
#include "codegen/nvidia/Ptxas.h"
#include "jit/CodeAccess.h"
#include "jit/LaunchVariants.h"
#include "kernels/Use.h"
#include <algorithm>
#include <sectile/error.h>

using namespace sectile;
using runtime::Assumes;

namespace {

std::vector<void (*)(BundleContents &)> &declared() {
  static std::vector<void (*)(BundleContents &)> all;
  return all;
}

} // namespace

const std::vector<void (*)(BundleContents &)> &sectile::declaredBundles() { return declared(); }

bool detail::declareBundle(void (*add)(BundleContents &)) {
  declared().push_back(add);
  return true;
}

void BundleContents::add(const detail::BoundLaunch &launch) { builder_.add(launch, true); }
void BundleContents::addAny(const detail::BoundLaunch &launch) { builder_.add(launch, false); }
void BundleContents::add(std::string_view kernel, const BundledCalls &calls) {
  builder_.add(kernel, calls);
}

BundleBuilder::BundleBuilder(const std::vector<std::string> &targets, Options options)
    : options_(options), writer_(runtime::aboutBundles()) {
  constexpr std::string_view virtualPrefix = "virtual:";
  for (const std::string &name : targets) {
    const bool isVirtual = name.starts_with(virtualPrefix);
    const std::string chip = isVirtual ? name.substr(virtualPrefix.size()) : name;
    places_.push_back({Chip::find(chip), isVirtual, {}});
    if (!places_.back().chip)
      throw InputError("target '" + name + "': " + Chip::whyUnknown(chip));
  }
  if (options_.machineCode && !ptxasVersion())
    throw InputError("machine code of NVIDIA's chips needs ptxas, which is neither on the PATH nor "
                     "in /usr/local/cuda/bin: name it in SECTILE_PTXAS, or leave that code out, "
                     "then the driver makes it of PTX");
}

void BundleBuilder::add(const Invocation &call, const Config &given) {
  for (Place &place : places_) {
    const Config config = completeConfig(call, place.chip->name, given);
    for (const detail::BoundLaunch &launch : bindKernel(call, config).launches)
      add(launch, place, true);
  }
}

void BundleBuilder::add(std::string_view name, const BundledCalls &calls) {
  const KernelSpec &kernel = findKernel(name);
  // Counts through all combinations, the last axis fastest.
  std::vector<std::pair<const std::string *, const std::vector<std::int64_t> *>> axes;
  for (const auto &[axis, extents] : calls.shapes) {
    if (extents.empty())
      throw InputError(kernel.name + ": the axis '" + axis + "' has no extents in its shapes");
    axes.emplace_back(&axis, &extents);
  }
  std::vector<std::size_t> at(axes.size());
  for (bool more = true; more;) {
    std::map<std::string, std::int64_t> shape;
    for (std::size_t i = 0; i < axes.size(); ++i)
      shape[*axes[i].first] = (*axes[i].second)[at[i]];
    add(resolveTypical(kernel, calls.dtype, shape, {calls.options.begin(), calls.options.end()},
                       calls.with),
        {});
    more = false;
    for (std::size_t i = axes.size(); i-- > 0 && !more;) {
      more = ++at[i] < axes[i].second->size();
      if (!more)
        at[i] = 0;
    }
  }
}

void BundleBuilder::add(const detail::BoundLaunch &launch, bool hasArguments) {
  for (Place &place : places_)
    add(launch, place, hasArguments);
}

void BundleBuilder::add(const detail::BoundLaunch &launch, Place &place, bool hasArguments) {
  if (hasArguments)
    compile(variantOf(launch, Assumes::likeThese), place);
  if (hasArguments && options_.onlyLikeThese)
    return;
  for (const Assumes assumes : {Assumes::aligned, Assumes::nothing})
    try {
      compile(variantOf(launch, assumes), place);
    } catch (const LaunchError &error) {
      // Where less is known, the chip may have too few registers or too little shared memory.
      if (!hasArguments && assumes == Assumes::aligned)
        throw;
      gaps_.push_back(place.chip->name + ": no code for other arguments: " + error.what());
    }
}

void BundleBuilder::compile(const detail::BoundLaunch &launch, Place &place) {
  // A recurrence launches one kernel for every step.
  std::string words;
  for (const std::uint64_t word : launch.configWords)
    words += std::to_string(word) + " ";
  if (!place.compiled
           .emplace(launch.kernel,
                    words + runtime::LaunchAccess::specialization(launch, *place.chip))
           .second)
    return;
  const auto [key, artifact] = runtime::CodeAccess::bundled(launch, *place.chip, place.isVirtual);
  writer_.add(key, artifact);
  if (!options_.machineCode || artifact.kind != "ptx")
    return;
  llvm::Expected<PtxasResult> made = runPtxas(artifact.bytes, Target(*place.chip));
  if (!made)
    throw CompileError("kernel '" + key.kernel + "': " + llvm::toString(made.takeError()));
  Artifact machine = artifact;
  machine.kind = "cubin";
  machine.bytes = std::move(made->cubin);
  machine.resources.registers = made->registers;
  machine.resources.spillBytes = made->spillStoreBytes;
  writer_.add(key, machine);
}
