// Compiling a bundle: every launch of every call, for every target, with code for less particular
// arguments beside that for these.
#include "kernels/BundleBuilder.h"
#include "codegen/nvidia/Ptxas.h"
#include "jit/CodeAccess.h"
#include "jit/LaunchVariants.h"
#include "kernels/Tune.h"
#include "kernels/Use.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>
#include <filesystem>
#include <sectile/error.h>

using namespace sectile;
using runtime::Assumes;

namespace {

std::vector<void (*)(BundleContents &)> &declared() {
  static std::vector<void (*)(BundleContents &)> all;
  return all;
}

std::shared_ptr<autotune::Database> measurementsOf(const std::string &file) {
  const auto text = llvm::MemoryBuffer::getFile(file);
  if (!text)
    throw InputError("measurements '" + file + "' cannot be read: " + text.getError().message());
  if (file.ends_with(".sqlite"))
    return std::make_shared<autotune::Database>(
        "", std::vector<std::string>{std::filesystem::absolute(file).string()});
  auto database = std::make_shared<autotune::Database>("");
  if (auto imported = database->import((*text)->getBuffer()); !imported)
    throw InputError("measurements '" + file + "': " + llvm::toString(imported.takeError()));
  return database;
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
    : options_(options), writer_(runtime::aboutBundles(), options.compresses) {
  constexpr std::string_view virtualPrefix = "virtual:";
  for (const std::string &name : targets) {
    const bool isVirtual = name.starts_with(virtualPrefix);
    const std::string chip = isVirtual ? name.substr(virtualPrefix.size()) : name;
    places_.push_back({Chip::find(chip), isVirtual, {}, {}});
    if (!places_.back().chip)
      throw InputError("target '" + name + "': " + Chip::whyUnknown(chip));
  }
  if (options_.machineCode && !ptxasVersion())
    throw InputError("machine code of NVIDIA's chips needs ptxas, which is neither on the PATH nor "
                     "in /usr/local/cuda/bin: name it in SECTILE_PTXAS, or leave that code out, "
                     "then the driver makes it of PTX");
}

void BundleBuilder::tuneBy(const std::string &file, const std::vector<std::string> &products,
                           std::string_view target) {
  const auto database = measurementsOf(file);
  std::set<std::string> all;
  for (const autotune::Problem &problem : database->problems())
    all.insert(problem.key.device);
  if (all.empty())
    throw InputError("measurements '" + file + "': there are none");
  bool isUsed = false;
  for (Place &place : places_) {
    const std::string name = (place.isVirtual ? "virtual:" : "") + place.chip->name;
    if (!target.empty() && target != name)
      continue;
    isUsed = true;
    // A product's own measurements count before its virtual device's.
    const std::string virtualName = "virtual:" + place.chip->name;
    std::vector<std::string> suitable;
    std::string list;
    for (const std::string &product : all)
      if (!product.starts_with("virtual:") &&
          (products.empty() || std::ranges::find(products, product) != products.end())) {
        suitable.push_back(product);
        (list += list.empty() ? "" : ", ") += product;
      }
    if (suitable.size() > 1)
      throw InputError("measurements '" + file + "' are of several products, " + list +
                       ": say which one '" + name + "' is tuned for");
    if (all.contains(virtualName))
      suitable.push_back(virtualName);
    for (const std::string &product : suitable)
      place.measured.push_back({database, product});
  }
  if (!isUsed)
    throw InputError("measurements '" + file + "': '" + std::string(target) +
                     "' is not among the targets");
}

Config BundleBuilder::choose(const Invocation &call, const Place &place) {
  const KernelSpec &kernel = *call.kernel;
  std::optional<Config> best;
  for (const Place::Measured &measured : place.measured)
    if (!best)
      best = bestKnown(call, *place.chip, measured.product, *measured.database);
  Config config = best ? *best : ownChoice(call, place.chip->name);
  writer_.add({.kernel = kernel.name,
               .target = place.chip->name,
               .kind = kindOf(call),
               .bucket = bucketOf(call),
               .config = describe(kernel, config),
               .order = orderOf(kernel, config),
               .isTuned = best.has_value()});
  return config;
}

void BundleBuilder::add(const Invocation &call, const Config &given) {
  for (Place &place : places_) {
    const Config config =
        given.empty() ? choose(call, place) : completeConfig(call, place.chip->name, given);
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
