// Symbols of kernels' names, and kernels with names that no assembler takes.
#include "codegen/nvidia/Ptxas.h"
#include "ir/Target.h"
#include "jit/CacheEntry.h"
#include "runtime/DeviceImpl.h"
#include "runtime/Symbol.h"
#include "tests/unit/ops/Devices.h"
#include "llvm/Support/JSON.h"
#include <filesystem>
#include <fstream>
#include <set>

using namespace sectile;

namespace {

const std::vector<std::string> oddNames = {"my kernel",
                                           "matmul (fp16)",
                                           "a.b::c<int, 3>",
                                           "2d_add",
                                           "größe",
                                           "q\"uote",
                                           "../../up",
                                           "/tmp/up",
                                           "..",
                                           "llvm.memcpy",
                                           "sectile.nv.load.i32.0",
                                           "",
                                           "_",
                                           "WARP_SZ",
                                           "%tid.x",
                                           "$",
                                           "a-b",
                                           "a$b",
                                           "a b",
                                           "line\nbreak",
                                           "\x01raw",
                                           "\xff\xfe",
                                           std::string(5000, 'n')};
const std::vector<std::string> plainNames = {
    "plain",     "ret",    "main", "tid",           "u32",
    "free",      "memcpy", "_2",   "sectile_entry", "sectile_vg_load",
    "__nv_sinf", "s0",     "exec", "printf"};

std::vector<std::string> allNames() {
  std::vector<std::string> names = oddNames;
  names.insert(names.end(), plainNames.begin(), plainNames.end());
  return names;
}

bool isIdentifier(const std::string &text) {
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
         });
}

std::string entryOf(const std::string &ptx) {
  const std::size_t begin = ptx.find(".entry ") + 7;
  return ptx.substr(begin, ptx.find('(', begin) - begin);
}

// A kernel keeps no copy of its name.
auto storing(const std::string &name, int number) {
  return Kernel{name.c_str(), [number](Ptr<int> y) { store(y, Tile<int>(number)); }};
}

class Names : public sectile::test::OnDevice {};
SECTILE_INSTANTIATE_ON(Names, "interpreter,virtual:sm_90a,virtual:gfx942");

} // namespace

TEST(Symbols, OfIdentifiersAreTheirNames) {
  for (const std::string &name : plainNames)
    EXPECT_EQ(symbolOf(name), name);
}

TEST(Symbols, AreDistinctIdentifiersOfLimitedLength) {
  std::set<std::string> symbols;
  for (const std::string &name : allNames()) {
    const std::string symbol = symbolOf(name);
    EXPECT_TRUE(isIdentifier(symbol)) << name << ": " << symbol;
    EXPECT_LE(symbol.size(), 128u);
    EXPECT_TRUE(symbols.insert(symbol).second) << name << ": " << symbol;
  }
}

TEST(Symbols, AreTakenByEveryAssembler) {
  const Target target = llvm::cantFail(Target::get("sm_90a"));
  for (const std::string &name : allNames()) {
    SCOPED_TRACE(name);
    const auto kernel = storing(name, 1);
    const std::string ptx = kernel.emit("sm_90a", "ptx", static_cast<int *>(nullptr));
    const std::string symbol = symbolOf(name.empty() ? "unnamed" : name);
    EXPECT_EQ(entryOf(ptx), symbol);
    if (findPtxas()) {
      auto result = runPtxas(ptx, target);
      EXPECT_TRUE(static_cast<bool>(result));
      llvm::consumeError(result.takeError());
    }
    EXPECT_NE(kernel.emit("gfx942", "hsaco", static_cast<int *>(nullptr)).find(symbol),
              std::string::npos);
  }
}

TEST_P(Names, OfAnyKindRun) {
  int number = 0;
  for (const std::string &name : allNames()) {
    SCOPED_TRACE(name);
    auto y = device.allocate<int>(1);
    storing(name, ++number).launch(device.stream(), 1, y);
    EXPECT_EQ(y.download()[0], number);
  }
}

TEST_P(Names, OfFunctionsOfAnyKindRun) {
  for (const std::string &name : allNames()) {
    SCOPED_TRACE(name);
    Function twice{name, [](Tile<int> x) { return x * 2; }};
    Kernel kernel{name.c_str(), [&](Ptr<int> y) { store(y, twice(load(y)) + twice(load(y))); }};
    auto y = device.upload(std::vector<int>{3});
    kernel.launch(device.stream(), 1, y);
    EXPECT_EQ(y.download()[0], 12);
  }
}

TEST_P(Names, OfAnyKindAreInCacheKeys) {
  for (const std::string &name : allNames()) {
    SCOPED_TRACE(name);
    const auto key =
        runtime::CacheKey::parse(storing(name, 1).cache_key(device, static_cast<int *>(nullptr)));
    ASSERT_TRUE(key);
    EXPECT_TRUE(llvm::json::isUTF8(key->kernel));
    EXPECT_EQ(key->target, device.impl()->codeKey());
  }
}

TEST_P(Names, AreToldAsTheyAre) {
  Kernel kernel{"my kernel", [](Ptr<int> y) { device_assert(load(y) == 1, "is not one"); }};
  auto y = device.upload(std::vector<int>{3});
  try {
    kernel.launch(device.stream(), 1, y);
    device.stream().synchronize();
    FAIL() << "nothing is reported";
  } catch (const AssertionError &error) {
    EXPECT_NE(std::string(error.what()).find("kernel 'my kernel'"), std::string::npos)
        << error.what();
  }
}

TEST(Dumps, StayInTheirFolder) {
  const std::filesystem::path outer =
      std::filesystem::path(testing::TempDir()) / ("sectile-dumps-" + std::to_string(getpid()));
  const std::filesystem::path folder = outer / "a" / "b";
  ASSERT_EQ(setenv("SECTILE_DUMP", folder.c_str(), 1), 0);
  for (const std::string &name : oddNames)
    (void)storing(name, 1).emit("sm_90a", "cta", static_cast<int *>(nullptr));
  unsetenv("SECTILE_DUMP");
  std::set<std::string> stems;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(outer)) {
    if (!entry.is_regular_file())
      continue;
    EXPECT_EQ(entry.path().parent_path(), folder);
    const std::string file = entry.path().filename();
    EXPECT_TRUE(std::all_of(file.begin(), file.end(), [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
    })) << file;
    stems.insert(file.substr(0, file.find('.')));
  }
  EXPECT_EQ(stems.size(), oddNames.size());
  std::filesystem::remove_all(outer);
}
