// Compiling a bundle: every launch of every call, for every target, with code for less particular
// arguments beside that for these.
#include "kernels/bundles/BundleBuilder.h"
#include "codegen/nvidia/Ptxas.h"
#include "jit/CodeAccess.h"
#include "jit/LaunchVariants.h"
#include "jit/Remarks.h"
#include "kernels/calls/Use.h"
#include "kernels/tuning/Tune.h"
#include "runtime/Threads.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <sectile/error.h>
#include <thread>

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

// Whoever declares a launch may have its kernel no longer afterwards.
void BundleContents::add(const detail::BoundLaunch &launch) {
  builder_.add(launch, true);
  builder_.finish();
}
void BundleContents::addAny(const detail::BoundLaunch &launch) {
  builder_.add(launch, false);
  builder_.finish();
}
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
  header_.add(*call.kernel);
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
  header_.add(launch);
  for (Place &place : places_)
    add(launch, place, hasArguments);
}

void BundleBuilder::add(const detail::BoundLaunch &launch, Place &place, bool hasArguments) {
  if (hasArguments)
    plan(launch, place, /*mayLack=*/false);
  if (hasArguments && options_.onlyLikeThese)
    return;
  // Where less is known, the chip may have too few registers or too little shared memory.
  plan(variantOf(launch, Assumes::aligned), place, /*mayLack=*/hasArguments);
  plan(variantOf(launch, Assumes::nothing), place, /*mayLack=*/true);
}

void BundleBuilder::plan(const detail::BoundLaunch &launch, Place &place, bool mayLack) {
  // A recurrence launches one kernel for every step.
  std::string words;
  for (const std::uint64_t word : launch.configWords)
    words += std::to_string(word) + " ";
  if (place.added
          .emplace(launch.kernel,
                   words + runtime::LaunchAccess::specialization(launch, *place.chip))
          .second)
    jobs_.push_back({launch, &place, mayLack, {}, {}, {}});
}

void BundleBuilder::compile(Job &job) const {
  try {
    auto code = runtime::CodeAccess::bundled(job.launch, *job.place->chip, job.place->isVirtual);
    if (options_.machineCode && code.second.kind == "ptx") {
      llvm::Expected<PtxasResult> made = runPtxas(code.second.bytes, Target(*job.place->chip));
      if (!made)
        throw CompileError("kernel '" + code.first.kernel +
                           "': " + llvm::toString(made.takeError()));
      Artifact machine = code.second;
      machine.kind = "cubin";
      machine.bytes = std::move(made->cubin);
      machine.resources.registers = made->registers;
      machine.resources.spillBytes = made->spillStoreBytes;
      job.made.push_back(code);
      job.made.emplace_back(std::move(code.first), std::move(machine));
    } else {
      job.made.push_back(std::move(code));
    }
  } catch (const LaunchError &error) {
    if (job.mayLack)
      job.gap = job.place->chip->name + ": no code for other arguments: " + error.what();
    else
      job.failure = std::current_exception();
  } catch (...) {
    job.failure = std::current_exception();
  }
}

void BundleBuilder::finish() {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> hasFailed = false;
  const auto work = [&] {
    for (std::size_t i; !hasFailed && (i = next++) < jobs_.size();) {
      compile(jobs_[i]);
      if (jobs_[i].failure)
        hasFailed = true;
    }
  };
  // Remarks come in the order of the launches.
  const unsigned cores = runtime::printsRemarks() ? 1 : std::thread::hardware_concurrency();
  {
    const auto others =
        startThreads(std::min<std::size_t>(cores > 1 ? cores - 1 : 0, jobs_.size()), work);
    work();
  }
  // In the order in which they were added, whichever was done first.
  std::deque<Job> jobs = std::move(jobs_);
  jobs_.clear();
  for (Job &job : jobs) {
    if (job.failure)
      std::rethrow_exception(job.failure);
    for (const auto &[key, artifact] : job.made)
      writer_.add(key, artifact);
    if (!job.gap.empty())
      gaps_.push_back(std::move(job.gap));
  }
}
