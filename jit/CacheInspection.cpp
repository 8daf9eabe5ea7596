// Looking into the compile cache's folder.
#include "jit/CacheInspection.h"
#include "codegen/Disassembly.h"
#include "codegen/UserCode.h"
#include "jit/CodeSource.h"
#include "jit/LaunchKey.h"
#include "jit/VirtualCompiler.h"
#include "jit/interpreter/InterpreterDevice.h"
#include "mlir/Parser/Parser.h"
#include "runtime/DeviceImpl.h"
#include <algorithm>

namespace sectile::runtime {
namespace {

std::optional<CachedKernel> decodeCached(std::string_view name, const DecodedEntry &entry) {
  std::optional<CacheKey> key = CacheKey::parse(entry.key);
  std::optional<StoredKernel> stored = decodeKernel(entry.content);
  if (entry.kind != EntryKind::Kernel || !key || !stored)
    return std::nullopt;
  CachedKernel kernel;
  kernel.name = name;
  kernel.options = stored->options;
  // Where the key's IR has locations, it is not kept twice.
  kernel.source = stored->source.empty() ? key->ir : std::move(stored->source);
  kernel.key = std::move(*key);
  kernel.artifact = std::move(stored->artifact);
  return kernel;
}

void describe(const DiskStore &store, ListedEntry &listed) {
  if (listed.name.ends_with(".tmp")) {
    listed.kind = ListedEntry::Unfinished;
    return;
  }
  if (listed.name.ends_with(".bad")) {
    listed.kind = ListedEntry::SetAside;
    return;
  }
  const std::optional<std::string> bytes = store.peek(listed.name);
  const std::optional<DecodedEntry> entry = bytes ? decodeEntry(*bytes) : std::nullopt;
  // What is whole and yet not understood another build wrote.
  if (entry || (bytes && isOfAnotherVersion(*bytes)))
    listed.kind = ListedEntry::OtherVersion;
  if (!entry)
    return;
  listed.key = entry->key;
  if (entry->kind == EntryKind::Launch) {
    if (std::optional<LaunchRecord> launch = decodeLaunch(entry->content)) {
      listed.kind = ListedEntry::Launch;
      listed.parts.kernel = kernelOfLaunch(listed.key);
      listed.launch = std::move(*launch);
    }
  } else if (entry->kind == EntryKind::Machine) {
    listed.kind = ListedEntry::Machine;
    listed.parts.kernel = kernelOfMachineCode(listed.key);
    listed.codeBytes = entry->content.size();
  } else if (std::optional<CachedKernel> kernel = decodeCached(listed.name, *entry)) {
    listed.kind = ListedEntry::Kernel;
    listed.parts = std::move(kernel->key);
    listed.form = kernel->artifact.kind;
    listed.codeBytes = kernel->artifact.bytes.size();
    listed.threads = kernel->artifact.plan.threads;
    listed.sharedBytes = kernel->artifact.plan.sharedBytes;
    listed.resources = kernel->artifact.resources;
    listed.irHash = kernel->artifact.irHash;
    listed.compileMilliseconds = kernel->artifact.compileMilliseconds;
  }
}

//===-- Keys
//--------------------------------------------------------------------------------------===//

// The words of "warps=4 stages=3 m=128 arguments 0:16 1:16 library PATH HASH" as parts with names.
std::vector<std::pair<std::string, std::string>> optionParts(std::string_view options) {
  std::vector<std::pair<std::string, std::string>> parts;
  auto take = [&](std::string_view from) {
    const size_t at = options.find(from);
    std::string_view taken = at == options.npos ? "" : options.substr(at + from.size());
    options = options.substr(0, at);
    return std::string(taken.substr(std::min(taken.size(), taken.find_first_not_of(' '))));
  };
  std::string libraries = take(" library"), arguments = take(" arguments");
  while (!options.empty()) {
    const std::string_view word = options.substr(0, options.find(' '));
    const size_t equals = word.find('=');
    if (!word.empty())
      parts.emplace_back(word.substr(0, equals),
                         equals == word.npos ? "" : word.substr(equals + 1));
    options.remove_prefix(std::min(options.size(), word.size() + 1));
  }
  parts.emplace_back("arguments", std::move(arguments));
  parts.emplace_back("library", std::move(libraries));
  return parts;
}

void compareOptions(const CacheKey &wanted, const CacheKey &found,
                    std::vector<KeyDifference> &differences) {
  const auto left = optionParts(wanted.options);
  auto right = optionParts(found.options);
  for (const auto &[name, value] : left) {
    const auto other =
        std::find_if(right.begin(), right.end(), [&](auto &part) { return part.first == name; });
    if (other == right.end()) {
      differences.push_back({name, value, ""});
      continue;
    }
    if (other->second != value)
      differences.push_back({name, value, other->second});
    right.erase(other);
  }
  for (const auto &[name, value] : right)
    differences.push_back({name, "", value});
}

// The first line in which two texts differ.
void compareIr(std::string_view wanted, std::string_view found,
               std::vector<KeyDifference> &differences) {
  for (unsigned line = 1; !wanted.empty() || !found.empty(); ++line) {
    const std::string_view left = wanted.substr(0, wanted.find('\n')),
                           right = found.substr(0, found.find('\n'));
    if (left != right) {
      differences.push_back(
          {"ir line " + std::to_string(line), std::string(left), std::string(right)});
      return;
    }
    wanted.remove_prefix(std::min(wanted.size(), left.size() + 1));
    found.remove_prefix(std::min(found.size(), right.size() + 1));
  }
}

//===-- Compiling again
//---------------------------------------------------------------------------===//

std::shared_ptr<DeviceImpl> hostDeviceOf(const Artifact &artifact) {
  if (artifact.kind == "interpreter")
    return openInterpreterDevice();
  if (artifact.kind == "virtual")
    return openVirtualDevice(artifact.target);
  return nullptr;
}

Verification cannot(std::string why) { return {Verification::Cannot, std::move(why)}; }

std::string differenceOf(const Artifact &stored, const Artifact &made) {
  if (stored.bytes != made.bytes)
    return "the code differs";
  if (stored.debugSites != made.debugSites)
    return "assertions and prints differ";
  if (!(stored.resources == made.resources))
    return "the resource use differs";
  if (stored.target != made.target || stored.kind != made.kind || stored.entry != made.entry ||
      stored.plan.threads != made.plan.threads ||
      stored.plan.sharedBytes != made.plan.sharedBytes || stored.plan.wait != made.plan.wait)
    return "what is said of the code differs";
  return "";
}

} // namespace

std::vector<ListedEntry> listCache(const DiskStore &store) {
  std::vector<ListedEntry> all;
  for (const DiskStore::Entry &entry : store.entries()) {
    ListedEntry listed;
    listed.name = entry.name;
    listed.bytes = entry.bytes;
    listed.lastUsed = entry.lastUsed;
    describe(store, listed);
    all.push_back(std::move(listed));
  }
  std::sort(all.begin(), all.end(), [](const ListedEntry &a, const ListedEntry &b) {
    return a.lastUsed != b.lastUsed ? a.lastUsed > b.lastUsed : a.name < b.name;
  });
  return all;
}

std::optional<CachedKernel> readCachedKernel(const DiskStore &store, std::string_view name) {
  const std::optional<std::string> bytes = store.peek(name);
  const std::optional<DecodedEntry> entry = bytes ? decodeEntry(*bytes) : std::nullopt;
  return entry ? decodeCached(name, *entry) : std::nullopt;
}

std::string codeText(const Artifact &artifact) {
  if (artifact.kind == "ptx")
    return artifact.bytes;
  if (artifact.kind != "interpreter")
    return disassemble(artifact);
  ContextLease context;
  const auto module = mlir::parseSourceString<mlir::ModuleOp>(artifact.bytes, context.get());
  std::string text;
  if (module)
    llvm::raw_string_ostream(text) << *module;
  return text;
}

Verification verify(const CachedKernel &kernel) {
  if (kernel.key.compiler != compilerVersion())
    return cannot("another compiler made it: " + kernel.key.compiler);
  const std::shared_ptr<DeviceImpl> device = hostDeviceOf(kernel.artifact);
  llvm::Expected<Target> target = Target::get(device ? "sm_80" : kernel.artifact.target);
  if (!target)
    return cannot(llvm::toString(target.takeError()));
  if (kernel.key.target != (device ? device->codeKey() : codeKeyOf(*target)))
    return cannot("it is for another processor: " + kernel.key.target);

  ContextLease context;
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceString<mlir::ModuleOp>(kernel.source, context.get());
  if (!module)
    return {Verification::Differs, "its IR cannot be read"};
  if (!kernel.key.options.ends_with(describeLibraries(*module)))
    return cannot("a library that it links has changed");
  std::string ir;
  llvm::raw_string_ostream out(ir);
  module->print(out, mlir::OpPrintingFlags());
  if (!(device && device->namesLines()) && ir != kernel.key.ir)
    return {Verification::Differs, "its IR is not its key's"};
  if (contentHash(ir) != kernel.artifact.irHash)
    return {Verification::Differs, "the hash of its IR differs"};
  llvm::Expected<Artifact> made = device ? compileFor(*device, *module, kernel.options)
                                         : compile(*module, *target, kernel.options, CodeFor::Chip);
  if (!made)
    return {Verification::Differs, llvm::toString(made.takeError())};
  const std::string difference = differenceOf(kernel.artifact, *made);
  return {difference.empty() ? Verification::Same : Verification::Differs, difference};
}

std::vector<KeyDifference> compareKeys(const CacheKey &wanted, const CacheKey &found) {
  std::vector<KeyDifference> differences;
  auto compare = [&](const char *part, const std::string &left, const std::string &right) {
    if (left != right)
      differences.push_back({part, left, right});
  };
  compare("kernel", wanted.kernel, found.kernel);
  compare("target", wanted.target, found.target);
  compareOptions(wanted, found, differences);
  compare("compiler", wanted.compiler, found.compiler);
  compareIr(wanted.ir, found.ir, differences);
  return differences;
}

std::vector<std::string> versionsOf(const DiskStore &store, const CacheKey &wanted) {
  using Parts = std::vector<std::pair<std::string, std::string>>;
  // What is known of the arguments, and the other options.
  const auto split = [](const CacheKey &key) {
    Parts parts = optionParts(key.options);
    const auto arguments = std::find_if(parts.begin(), parts.end(),
                                        [](auto &part) { return part.first == "arguments"; });
    std::string known = arguments->second;
    parts.erase(arguments);
    return std::pair(std::move(known), std::move(parts));
  };
  const Parts others = split(wanted).second;
  std::vector<std::string> versions;
  for (const ListedEntry &listed : listCache(store)) {
    if (listed.kind != ListedEntry::Kernel || listed.parts.kernel != wanted.kernel ||
        listed.parts.target != wanted.target || listed.parts.compiler != wanted.compiler)
      continue;
    if (auto [known, rest] = split(listed.parts); rest == others)
      versions.push_back(std::move(known));
  }
  std::sort(versions.begin(), versions.end());
  versions.erase(std::unique(versions.begin(), versions.end()), versions.end());
  return versions;
}

std::optional<NearestEntry> nearestEntry(const DiskStore &store, const CacheKey &wanted) {
  std::optional<NearestEntry> nearest;
  for (const ListedEntry &listed : listCache(store)) {
    if (listed.kind != ListedEntry::Kernel || listed.parts.kernel != wanted.kernel)
      continue;
    std::vector<KeyDifference> differences = compareKeys(wanted, listed.parts);
    if (!nearest || differences.size() < nearest->differences.size())
      nearest = NearestEntry{listed.name, std::move(differences)};
  }
  return nearest;
}

} // namespace sectile::runtime
