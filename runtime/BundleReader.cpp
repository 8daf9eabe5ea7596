// Reads bundles.
#include "runtime/Bundle.h"
#include "runtime/BundleFormat.h"
#include "runtime/Checksum.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sectile/error.h>
#include <sectile/version.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sectile::runtime {

using namespace bundle;

namespace {

// Whether a launch can follow the plan: every argument that it names is one.
bool isSound(const Artifact &artifact, std::span<const detail::ArgSpec> signature) {
  const LaunchPlan &plan = artifact.plan;
  size_t count = 0;
  for (const detail::ArgSpec &spec : signature)
    count += static_cast<size_t>(detail::flattenedCount(spec));
  for (size_t i = 0; i < plan.arguments.size(); ++i)
    if (const unsigned rank = plan.arguments[i].distinct; rank && i + 2 * rank >= count)
      return false;
  const auto isGiven = [&](const TensorMapPlan::Given &given) {
    return given.argument < 0 ||
           (static_cast<size_t>(given.argument) < count && given.bits >= 1 && given.bits <= 64);
  };
  return count <= detail::maxArguments && plan.arguments.size() <= count &&
         plan.firstTensorMap <= count + (artifact.debugSites.empty() ? 0 : 2) &&
         std::ranges::all_of(plan.tensorMaps, [&](const TensorMapPlan &map) {
           const size_t rank = map.extents.size();
           return map.pointer < count && rank >= 1 && rank <= TensorMapValues::mostDimensions &&
                  map.strides.size() == rank - 1 && map.box.size() == rank &&
                  std::ranges::all_of(map.extents, isGiven) &&
                  std::ranges::all_of(map.strides, isGiven);
         });
}

} // namespace

std::string bundleIdentityText(const uint64_t (&words)[2]) {
  char digits[33];
  std::snprintf(digits, sizeof digits, "%016llx%016llx", static_cast<unsigned long long>(words[0]),
                static_cast<unsigned long long>(words[1]));
  return digits;
}

void Bundle::refuse(const std::string &why) const {
  throw InputError("bundle '" + name_ + "' " + why);
}

std::shared_ptr<const Bundle> Bundle::of(std::string_view bytes, std::string name) {
  const std::shared_ptr<Bundle> bundle(new Bundle(std::move(name)));
  bundle->read(bytes);
  return bundle;
}

std::shared_ptr<const Bundle> Bundle::open(const std::string &path) {
  const std::shared_ptr<Bundle> bundle(new Bundle(path));
  const auto failed = [&] { bundle->refuse("cannot be read: " + std::string(strerror(errno))); };
  const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "rbe"),
                                                              &std::fclose);
  struct stat info{};
  if (!file || fstat(fileno(file.get()), &info))
    failed();
  if (!S_ISREG(info.st_mode))
    bundle->refuse("is no file");
  if ((info.st_uid != geteuid() && info.st_uid != 0) || info.st_mode & S_IWOTH)
    bundle->refuse("could have been written by others: it must belong to you or to root, and not "
                   "be writable by everybody");
  bundle->file.resize(static_cast<size_t>(info.st_size));
  if (std::fread(bundle->file.data(), 1, bundle->file.size(), file.get()) != bundle->file.size()) {
    if (std::ferror(file.get()))
      failed();
    bundle->refuse("is cut off: it became shorter while it was read");
  }
  bundle->read(bundle->file);
  return bundle;
}

void Bundle::read(std::string_view bytes) {
  if (!bytes.starts_with(magic.substr(0, bytes.size())) || bytes.empty())
    refuse("is no bundle of Sectile's");
  if (bytes.size() < headSize)
    refuse("is cut off: it has " + std::to_string(bytes.size()) + " bytes, its head alone has " +
           std::to_string(headSize));
  ByteReader head(bytes.substr(magic.size()));
  if (const auto found = head.number<uint32_t>(); found != format)
    refuse("has format " + std::to_string(found) + ", but this library reads format " +
           std::to_string(format) + ": build the bundle again");
  const auto flags = head.number<uint32_t>();
  const auto length = head.number<uint64_t>();
  const auto checksum = head.number<uint64_t>();
  if (bytes.size() < length)
    refuse("is cut off: it has " + std::to_string(bytes.size()) + " bytes of " +
           std::to_string(length));
  if (bytes.size() > length || flags != 0 || checksum != checksumOf(bytes.substr(checkedFrom)))
    refuse("was changed: its checksum is wrong");
  // From here on the bytes are what some writer made of them, but who knows which.
  const auto countSections = head.number<uint32_t>();
  if (const auto found = head.number<uint32_t>(); found != artifactFormat())
    refuse("has code in format " + std::to_string(found) + ", but this library reads format " +
           std::to_string(artifactFormat()) + ": build the bundle again");
  identity_ = bundleIdentityText(head.number<Identity>().words);
  // The library's kernels may take other arguments in another version.
  if (const auto found = head.number<uint64_t>(); found != SECTILE_VERSION)
    refuse("was built by Sectile " + std::to_string(found / 10000) + "." +
           std::to_string(found / 100 % 100) + "." + std::to_string(found % 100) + ", this is " +
           version() + ": build the bundle again");
  std::string_view kernelBytes, variantBytes, codeBytes, choiceBytes;
  for (uint32_t i = 0; i < countSections; ++i) {
    const auto kind = head.number<uint32_t>();
    head.number<uint32_t>();
    const auto offset = head.number<uint64_t>(), size = head.number<uint64_t>();
    if (!head.ok() || offset > bytes.size() || size > bytes.size() - offset)
      refuse("is damaged: a section lies beyond its end");
    const std::string_view section = bytes.substr(offset, size);
    switch (kind) {
    case kernelsKind:
      kernelBytes = section;
      break;
    case variantsKind:
      variantBytes = section;
      break;
    case codesKind:
      codeBytes = section;
      break;
    case choicesKind:
      choiceBytes = section;
      break;
    case aboutKind:
      about_ = section;
      break;
    }
  }
  readKernels(kernelBytes);
  readCodes(codeBytes);
  readVariants(variantBytes);
  if (!choiceBytes.empty())
    readChoices(choiceBytes);
}

void Bundle::readKernels(std::string_view section) {
  ByteReader in(section);
  for (uint64_t count = in.count(); count && in.ok(); --count) {
    Kernel &kernel = kernels.emplace_back();
    kernel.name = in.view();
    for (uint64_t specs = in.count(); specs && in.ok(); --specs) {
      detail::ArgSpec &spec = kernel.signature.emplace_back();
      const auto kind = in.number<uint8_t>(), dtype = in.number<uint8_t>();
      if (kind > static_cast<uint8_t>(detail::ArgKind::index) || dtype >= std::size(detail::dtypes))
        refuse("is damaged: an argument of '" + std::string(kernel.name) + "' is of no type");
      spec.kind = static_cast<detail::ArgKind>(kind);
      spec.dtype = static_cast<DType>(dtype);
      spec.rank = in.number<uint8_t>();
      const auto flags = in.number<uint8_t>();
      spec.readonly = flags & 1;
      spec.varying = flags >> 1 & 1;
    }
  }
  if (!in.finished())
    refuse("is damaged: its list of kernels cannot be read");
}

void Bundle::readCodes(std::string_view section) {
  ByteReader in(section);
  for (uint64_t count = in.count(); count && in.ok(); --count) {
    const auto encoding = in.number<uint32_t>();
    if (in.ok() && encoding != asIs && encoding != zstdFrame)
      refuse("is damaged: code is kept in an unknown way, " + std::to_string(encoding));
    Code &code = codes.emplace_back();
    code.bytes = in.view();
    code.isCompressed = encoding == zstdFrame;
    code.size = code.isCompressed ? in.number<uint64_t>() : code.bytes.size();
    if (code.size > mostOfCode)
      refuse("is damaged: a code has more than " + std::to_string(mostOfCode) + " bytes");
  }
  if (!in.finished())
    refuse("is damaged: its codes cannot be read");
}

void Bundle::readVariants(std::string_view section) {
  ByteReader in(section);
  for (uint64_t count = in.count(); count && in.ok(); --count) {
    const auto kernel = in.number<uint32_t>();
    Variant variant{};
    variant.target = in.view();
    for (unsigned *number : {&variant.warps, &variant.stages, &variant.longAxis,
                             &variant.maxRegisters, &variant.minPrograms})
      *number = in.number<uint32_t>();
    const auto flags = in.number<uint32_t>();
    variant.debug = flags & debugFlag;
    variant.checked = flags & checkedFlag;
    for (uint64_t words = in.count(); words && in.ok(); --words)
      variant.configuration.push_back(in.number<uint64_t>());
    variant.described = in.view();
    std::optional<Artifact> artifact = deserialize(in.view());
    variant.code = in.number<uint32_t>();
    if (!in.ok())
      break;
    if (kernel >= kernels.size() || variant.code >= codes.size())
      refuse("is damaged: a variant is of a kernel or a code that is not there");
    if (!artifact || !isSound(*artifact, kernels[kernel].signature))
      refuse("is damaged: the description of a code cannot be used");
    variant.artifact = std::move(*artifact);
    kernels[kernel].variants.push_back(std::move(variant));
  }
  if (!in.finished())
    refuse("is damaged: its list of variants cannot be read");
}

void Bundle::readChoices(std::string_view section) {
  ByteReader in(section);
  for (uint64_t count = in.count(); count && in.ok(); --count) {
    BundledChoice &choice = choices_.emplace_back();
    for (std::string *text :
         {&choice.kernel, &choice.target, &choice.kind, &choice.config, &choice.order})
      *text = in.view();
    choice.isTuned = in.number<uint32_t>();
    for (uint64_t axes = in.count(); axes && in.ok(); --axes) {
      const std::string_view axis = in.view();
      choice.bucket.emplace_back(axis, in.number<int64_t>());
    }
  }
  if (!in.finished())
    refuse("is damaged: its choices cannot be read");
}

} // namespace sectile::runtime
