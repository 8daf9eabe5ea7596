// Looking into the compile cache: what is listed and shown is what was compiled, verifying compiles
// it again, and archives carry it elsewhere.
#include "CacheTest.h"
#include "codegen/KernelError.h"
#include "mlir/Parser/Parser.h"
#include "runtime/DeviceImpl.h"
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>
#include <sectile/language.h>
#include <sectile/sectile.h>
#include <set>

namespace sc = sectile;
using namespace sectile;
using namespace sectile::runtime;
using testing::ElementsAre, testing::HasSubstr, testing::IsEmpty, testing::Not;
namespace fs = std::filesystem;

namespace {

struct Block {
  int size = 256;
};
SECTILE_CONFIG(Block, size)

Kernel scale{"scale", [](sc::Ptr<float> x, sc::Int n, const Block &block) {
               const auto i = sc::program_id(0) * block.size + sc::arange(0, block.size);
               sc::store(x + i, sc::load(x + i, i < n) * 3.0f, i < n);
             }};

// What the process's cache keeps lies here; it is read through a store of the test's own.
fs::path processFolder() {
  static const fs::path folder = [] { return test::newFolder(); }();
  return folder;
}
struct Environment : testing::Environment {
  void SetUp() override { setenv("SECTILE_CACHE_DIR", (processFolder() / "c").c_str(), 1); }
  void TearDown() override { fs::remove_all(processFolder()); }
};
const auto *const environment = testing::AddGlobalTestEnvironment(new Environment);

void launch(const std::string &device, int block) {
  const Device on = Device::open(device);
  auto buffer = on.upload(std::vector<float>(300, 2.0f));
  scale.launch(on.stream(), Grid(3), buffer, 300, {.size = block});
  EXPECT_EQ(buffer.download(), std::vector<float>(300, 6.0f));
}

// An entry for a chip, as a launch on one would make it.
void compileFor(CompileCache &cache, const std::string &chip, unsigned warps = 4, int size = 256) {
  const Device traced = Device::open("virtual:sm_80");
  const std::string text =
      scale.cache_key(traced, static_cast<float *>(nullptr), 1 << 20, {.size = size});
  CacheKey key = CacheKey::parse(text).value();
  const std::string source = key.ir;
  const Target target = llvm::cantFail(Target::get(chip));
  CompileOptions options;
  options.warps = warps;
  key.target = codeKeyOf(target);
  key.options = "warps=" + std::to_string(warps) + " stages=3 size=256 arguments 0:16 1:16";
  ContextLease context;
  auto module = mlir::parseSourceString<mlir::ModuleOp>(source, context.get());
  ASSERT_TRUE(module);
  key.ir.clear(); // without locations
  llvm::raw_string_ostream out(key.ir);
  module->print(out, mlir::OpPrintingFlags());
  const auto make = [&] {
    Artifact artifact = llvm::cantFail(compile(*module, target, options, CodeFor::Chip));
    artifact.irHash = contentHash(key.ir);
    return artifact;
  };
  cache.get(key, make, {options, source});
}

// How many of an AMD chip's vector registers the code names: "v7", "v[2:5]".
unsigned vectorRegisters(const std::string &code) {
  unsigned count = 0;
  const std::regex name(R"(\bv(?:\[\d+:)?(\d+))");
  for (std::sregex_iterator found(code.begin(), code.end(), name), end; found != end; ++found)
    count = std::max(count, static_cast<unsigned>(std::stoul((*found)[1])) + 1);
  return count;
}

class CacheInspectionTest : public testing::Test {
protected:
  CacheInspectionTest() : folder(processFolder() / "own") {}
  ~CacheInspectionTest() override { fs::remove_all(folder); }
  static std::vector<ListedEntry> kernels(const DiskStore &store) {
    std::vector<ListedEntry> found = listCache(store);
    std::erase_if(found, [](auto &entry) { return entry.kind != ListedEntry::Kernel; });
    return found;
  }
  fs::path folder;
};

} // namespace

TEST_F(CacheInspectionTest, WhatLaunchesLeaveIsListedAndTrue) {
  launch("virtual:sm_80", 128);
  launch("virtual:gfx942", 128);
  launch("interpreter", 128);
  const DiskStore &store = *CompileCache::get().disk();
  std::set<std::string> forms;
  unsigned launches = 0;
  for (const ListedEntry &entry : listCache(store)) {
    ASSERT_TRUE(entry.kind == ListedEntry::Kernel || entry.kind == ListedEntry::Launch);
    EXPECT_EQ(entry.bytes, fs::file_size(fs::path(store.folder()) / entry.name));
    if (entry.kind == ListedEntry::Launch) {
      ++launches;
      EXPECT_THAT(entry.key, HasSubstr("launch of kernel scale\n"));
      const auto named = readCachedKernel(store, entry.launch.entry);
      ASSERT_TRUE(named) << "it names no entry";
      EXPECT_EQ(named->artifact.irHash, entry.launch.irHash);
      EXPECT_EQ(digestOf(named->key.text()), entry.launch.keyDigest);
      continue;
    }
    EXPECT_EQ(entry.parts.kernel, "scale");
    EXPECT_EQ(entry.key, entry.parts.text());
    EXPECT_EQ(entry.name, contentHash(entry.key));
    EXPECT_GT(entry.compileMilliseconds, 0);
    EXPECT_THAT(entry.parts.options, HasSubstr("size=128"));
    const auto kernel = readCachedKernel(store, entry.name);
    ASSERT_TRUE(kernel);
    EXPECT_THAT(kernel->source, HasSubstr("cache_inspection_test.cpp"));
    EXPECT_EQ(kernel->artifact.bytes.size(), entry.codeBytes);
    const Verification verified = verify(*kernel);
    EXPECT_EQ(verified.verdict, Verification::Same) << entry.form << ": " << verified.message;
    forms.insert(entry.form);
  }
  EXPECT_THAT(forms, ElementsAre("interpreter", "virtual"));
  EXPECT_EQ(launches, 3u);
}

TEST_F(CacheInspectionTest, CodeForChipsIsShownAndVerified) {
  CompileCache cache(folder);
  compileFor(cache, "sm_90a");
  compileFor(cache, "gfx942");
  for (const ListedEntry &entry : kernels(*cache.disk())) {
    const auto kernel = readCachedKernel(*cache.disk(), entry.name);
    ASSERT_TRUE(kernel);
    const std::string code = codeText(kernel->artifact);
    if (entry.form == "ptx") {
      EXPECT_THAT(code, HasSubstr(".visible .entry scale"));
      EXPECT_EQ(entry.resources.registers, 0u) << "only the driver knows";
    } else {
      EXPECT_EQ(entry.form, "hsaco");
      EXPECT_THAT(code, HasSubstr("scale:\n"));
      EXPECT_THAT(code, HasSubstr("s_endpgm"));
      EXPECT_THAT(code, Not(HasSubstr(".byte")));
      EXPECT_EQ(entry.resources.registers, vectorRegisters(code));
      EXPECT_EQ(entry.resources.spillBytes, 0u);
    }
    EXPECT_EQ(verify(*kernel).verdict, Verification::Same) << verify(*kernel).message;
  }
}

TEST_F(CacheInspectionTest, SpillsAreCounted) {
  CompileCache cache(folder);
  compileFor(cache, "gfx1100", 1, 16384); // 512 numbers in each thread
  const ListedEntry entry = kernels(*cache.disk()).at(0);
  const Resources resources = entry.resources;
  EXPECT_EQ(resources.registers,
            vectorRegisters(codeText(readCachedKernel(*cache.disk(), entry.name)->artifact)));
  EXPECT_GT(resources.registers, 200u);
  EXPECT_GE(resources.spillBytes, 256u * 4);
  EXPECT_LT(resources.spillBytes, 2048u * 4);
}

TEST_F(CacheInspectionTest, VerifyingSeesWhatIsNotTrue) {
  CompileCache cache(folder);
  compileFor(cache, "sm_90a");
  CachedKernel kernel = readCachedKernel(*cache.disk(), kernels(*cache.disk()).at(0).name).value();
  CachedKernel changed = kernel;
  changed.artifact.bytes += "\n";
  EXPECT_EQ(verify(changed).verdict, Verification::Differs);
  EXPECT_EQ(verify(changed).message, "the code differs");
  changed = kernel;
  changed.options.warps = 8;
  EXPECT_EQ(verify(changed).verdict, Verification::Differs);
  changed = kernel;
  changed.artifact.resources.registers = 7;
  EXPECT_EQ(verify(changed).message, "the resource use differs");
  changed = kernel;
  changed.artifact.irHash[0] ^= 1;
  EXPECT_EQ(verify(changed).verdict, Verification::Differs);
  EXPECT_EQ(verify(changed).message, "the hash of its IR differs");
  changed = kernel;
  changed.key.ir += " ";
  EXPECT_EQ(verify(changed).verdict, Verification::Differs);
  EXPECT_EQ(verify(changed).message, "its IR is not its key's");
  changed = kernel;
  changed.source = "no IR";
  EXPECT_EQ(verify(changed).verdict, Verification::Differs);
  changed = kernel;
  changed.key.compiler = "sectile of tomorrow";
  EXPECT_EQ(verify(changed).verdict, Verification::Cannot);
  changed = kernel;
  changed.key.target = "sm_90a with another feature";
  EXPECT_EQ(verify(changed).verdict, Verification::Cannot);
}

TEST_F(CacheInspectionTest, TheNearestEntrySaysWhatDiffers) {
  CompileCache cache(folder);
  compileFor(cache, "sm_90a");
  compileFor(cache, "sm_90a", 8);
  compileFor(cache, "sm_80");
  CacheKey wanted;
  for (const ListedEntry &entry : kernels(*cache.disk()))
    if (entry.parts.options.starts_with("warps=8"))
      wanted = entry.parts;
  ASSERT_EQ(wanted.kernel, "scale");
  EXPECT_THAT(nearestEntry(*cache.disk(), wanted)->differences, IsEmpty());

  wanted.options = "warps=2 stages=3 size=256 arguments 0:16 1:16";
  const NearestEntry nearest = nearestEntry(*cache.disk(), wanted).value();
  ASSERT_EQ(nearest.differences.size(), 1u);
  EXPECT_EQ(nearest.differences[0].part, "warps");
  EXPECT_EQ(nearest.differences[0].wanted, "2");
  EXPECT_THAT(nearest.differences[0].found, testing::AnyOf("4", "8"));

  CacheKey other = wanted;
  other.options = "warps=2 stages=3 depth=1 arguments 0:16 library /a 0";
  other.ir.insert(other.ir.find('\n') + 1, "more\n");
  other.compiler = "new";
  std::vector<std::string> parts;
  for (const KeyDifference &difference : compareKeys(other, wanted))
    parts.push_back(difference.part + ": " + difference.wanted.substr(0, 8) + "/" +
                    (difference.part == "compiler" ? "" : difference.found.substr(0, 9)));
  EXPECT_EQ(parts[0], "depth: 1/");
  EXPECT_EQ(parts[1], "arguments: 0:16/0:16 1:16");
  EXPECT_EQ(parts[2], "library: /a 0/");
  EXPECT_EQ(parts[3], "size: /256");
  EXPECT_EQ(parts[4], "compiler: new/");
  EXPECT_THAT(parts[5], testing::StartsWith("ir line 2: more/"));
  EXPECT_EQ(parts.size(), 6u);

  other.kernel = "unknown";
  EXPECT_FALSE(nearestEntry(*cache.disk(), other));
}

TEST_F(CacheInspectionTest, ArchivesCarryEntriesAndAreRefusedWhenDamaged) {
  CompileCache cache(folder);
  for (const char *ir : {"a", "b"})
    cache.get({"k", "sm_90a", "warps=4", ir}, [&] {
      Artifact artifact;
      artifact.bytes = ir;
      return artifact;
    });
  std::vector<std::string> names;
  for (const ListedEntry &entry : kernels(*cache.disk()))
    names.push_back(entry.name);
  ASSERT_EQ(names.size(), 2u);
  const fs::path archive = folder / "archive", damaged = folder / "damaged";
  std::string problem;
  ASSERT_TRUE(exportCache(*cache.disk(), names, archive, problem)) << problem;
  EXPECT_FALSE(exportCache(*cache.disk(), names, folder / "no" / "folder", problem));
  EXPECT_THAT(problem, HasSubstr("No such file"));

  std::ifstream in(archive, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  DiskStore refusing(folder / "refusing", 1 << 20);
  auto refused = [&](const std::string &content) {
    std::ofstream(damaged, std::ios::binary) << content;
    return !importCache(refusing, damaged, problem);
  };
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    ASSERT_TRUE(refused(changed)) << "byte " << i;
    ASSERT_TRUE(refused(bytes.substr(0, i))) << "cut to " << i;
  }
  ASSERT_TRUE(refused(bytes + "more"));
  EXPECT_TRUE(refusing.entries().empty());
  EXPECT_FALSE(importCache(refusing, folder / "missing", problem));

  CompileCache second(folder / "second");
  auto imported = importCache(*second.disk(), archive, problem);
  ASSERT_TRUE(imported) << problem;
  EXPECT_EQ(imported->added, 2u);
  imported = importCache(*second.disk(), archive, problem);
  EXPECT_EQ(imported->added, 0u);
  EXPECT_EQ(imported->present, 2u);
  const auto found = second.get({"k", "sm_90a", "warps=4", "a"}, []() -> Artifact { throw 0; });
  EXPECT_EQ(found->bytes, "a");
}

TEST_F(CacheInspectionTest, ListingIsNoUse) {
  CompileCache cache(folder);
  cache.get({"k", "sm_90a", "warps=4", "a"}, [] { return Artifact(); });
  const std::string name = kernels(*cache.disk()).at(0).name;
  const fs::path file = folder / name;
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(48);
  fs::last_write_time(file, long_ago);
  std::ofstream(folder / "x.bad") << "x";
  std::ofstream(folder / "x.1.tmp") << "x";
  std::ofstream(folder / "x") << "x";
  std::multiset<int> kinds;
  for (const ListedEntry &entry : listCache(*cache.disk()))
    kinds.insert(entry.kind);
  EXPECT_EQ(kinds, (std::multiset<int>{ListedEntry::Kernel, ListedEntry::Damaged,
                                       ListedEntry::SetAside, ListedEntry::Unfinished}));
  EXPECT_TRUE(readCachedKernel(*cache.disk(), name));
  EXPECT_EQ(fs::last_write_time(file), long_ago);
}

TEST_F(CacheInspectionTest, CodeHashesLeaveOutLinesAndDevices) {
  const Device nvidia = Device::open("virtual:sm_80"), amd = Device::open("virtual:gfx942");
  float *const x = nullptr;
  const std::string hash = scale.code_hash(nvidia, x, 1 << 20, {.size = 64});
  EXPECT_EQ(hash.size(), 32u);
  EXPECT_EQ(scale.code_hash(amd, x, 1 << 20, {.size = 64}), hash);
  EXPECT_EQ(scale.code_hash(nvidia, x, 1 << 20, {.size = 64}), hash);
  EXPECT_NE(scale.code_hash(nvidia, x, 1 << 20, {.size = 32}), hash);
  EXPECT_NE(scale.code_hash(nvidia, x, (1 << 20) + 1, {.size = 64}), hash);
  const std::string key = scale.cache_key(nvidia, x, 1 << 20, {.size = 64});
  EXPECT_THAT(key, HasSubstr("kernel scale\ntarget sm_80"));
}
