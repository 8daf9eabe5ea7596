// Machine code in the compile cache: a second process compiles nothing, in the driver neither; what
// its key tells apart; who makes code where there is no ptxas, or it is of no use. Processes are
// forked before anything is opened; driver and ptxas are fake.
#include "CacheTest.h"
#include "runtime/LaunchAccess.h"
#include "runtime/PtxForms.h"
#include "tests/fake/fake_cuda.h"
#include <algorithm>
#include <dlfcn.h>
#include <fstream>
#include <gmock/gmock.h>
#include <map>
#include <sectile/sectile.h>
#include <sys/stat.h>

using namespace sectile;
using namespace sectile::runtime;
using namespace sectile::test;
using testing::ElementsAre, testing::IsEmpty;
namespace fs = std::filesystem;

namespace {

Kernel add{"fake_add", [](Ptr<const float> x, Ptr<const float> y, Ptr<float> z, Int n) {
             const auto i = program_id(0) * 128 + arange(0, 128);
             store(z + i, load(x + i, i < n) + load(y + i, i < n), i < n);
           }};

/// What a process did.
struct Said {
  bool right = false;
  int traced = -1;   ///< contexts made
  int compiled = -1; ///< kernels, by this library
  int driver = -1;   ///< kernels, by the driver
  int spilt = -1;    ///< bytes, of what was loaded
};

class MachineCode : public CacheTest {
protected:
  MachineCode() {
    // Arguments as runPtxas gives them: -v -lineinfo -arch CHIP INPUT -o OUTPUT.
    std::ofstream(ptxas)
        << "#!/bin/sh\n"
           "if [ \"$1\" = --version ]; then\n"
           "  echo \"Cuda compilation tools, release ${RELEASE:-13.0}, V13.0.${PATCH:-1}\"\n"
           "  echo \"Build fake\"; exit; fi\n"
           "echo \"$4\" >> "
        << calls
        << "\n[ -z \"$FAILS\" ] || exit 1\n"
           "if [ -n \"$FAKE_CUDA_SPILLS\" ]; then\n"
           "  if grep -q '^.minnctapersm 1$' \"$5\"; then echo '8 bytes spill stores'\n"
           "  else echo '800 bytes spill stores'; fi; fi\n"
           "printf '\\177ELF%s\\n' \"${CHIP:-$4}\" > \"$7\"; cat \"$5\" >> \"$7\"\n";
    chmod(ptxas.c_str(), 0755);
  }

  /// A new process that launches the kernel, with these variables.
  Said launch(const std::map<std::string, std::string> &variables = {},
              const char *device = "cuda:0") {
    const fs::path result = root / "said";
    fs::remove(result);
    Child child([&] {
      setenv("SECTILE_CACHE_DIR", folder.c_str(), 1);
      setenv("SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA, 1);
      setenv("SECTILE_PTXAS", ptxas.c_str(), 1);
      setenv("FAKE_CUDA_VERSION", "13000", 1);
      for (const auto &[name, value] : variables)
        setenv(name.c_str(), value.c_str(), 1);
      std::ofstream(result) << run(Device::open(device));
      return 0;
    });
    EXPECT_EQ(child.wait(), 0);
    Said said;
    std::ifstream(result) >> said.right >> said.traced >> said.compiled >> said.driver >>
        said.spilt;
    EXPECT_TRUE(said.right);
    return said;
  }
  static std::string run(const Device &device) {
    auto x = device.upload(std::vector<float>{1, 2, 3}),
         y = device.upload(std::vector<float>{10, 20, 30}), z = device.allocate<float>(3);
    add.launch(device.stream(), 1, x, y, z, 3);
    const unsigned spills =
        LaunchAccess::prepare(add.bind(1, x, y, z, 3), device).resources.spillBytes;
    const bool right = z.download() == std::vector<float>{11, 22, 33};
    void *library = dlopen(std::getenv("SECTILE_CUDA_LIBRARY"), RTLD_NOW);
    const auto compiles = reinterpret_cast<int (*)()>(dlsym(library, "fakeCudaCompiles"));
    return std::to_string(right) + " " + std::to_string(ContextLease::created()) + " " +
           std::to_string(CompileCache::get().counts().compiles) + " " +
           std::to_string(compiles()) + " " + std::to_string(spills);
  }
  /// The chips that ptxas was called for so far.
  std::vector<std::string> assembled() const {
    std::vector<std::string> chips;
    std::ifstream in(calls);
    for (std::string chip; in >> chip;)
      chips.push_back(chip);
    return chips;
  }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> found;
    for (const auto &item : fs::directory_iterator(folder))
      if (item.path().extension() == ".cubin")
        found.push_back(item.path());
    return found;
  }

  const fs::path ptxas = root / "ptxas", calls = root / "calls";
};

} // namespace

TEST_F(MachineCode, AWarmProcessCompilesNothingInTheDriverNeither) {
  const Said first = launch();
  EXPECT_EQ(first.compiled, 1);
  EXPECT_EQ(first.driver, 0);
  EXPECT_EQ(assembled().size(), 1u);
  const Said second = launch();
  EXPECT_EQ(second.traced, 0);
  EXPECT_EQ(second.compiled, 0);
  EXPECT_EQ(second.driver, 0);
  EXPECT_EQ(assembled().size(), 1u) << "it was assembled again";
}

TEST_F(MachineCode, ItsKeyHasAssemblerDriverAndChip) {
  launch();
  // The driver calls itself by the same version after an update, and is another build.
  std::ifstream in(SECTILE_FAKE_CUDA, std::ios::binary);
  std::string image{std::istreambuf_iterator<char>(in), {}};
  const char note[] = "\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU";
  const size_t id = image.find(std::string(note, sizeof note));
  ASSERT_NE(id, image.npos) << "the fake driver has no build ID";
  image[id + sizeof note] = static_cast<char>(image[id + sizeof note] ^ 1);
  std::ofstream(root / "driver.so", std::ios::binary) << image;
  const std::vector<std::map<std::string, std::string>> others = {
      {{"PATCH", "2"}},
      {{"FAKE_CUDA_VERSION", "13010"}, {"RELEASE", "13.1"}},
      {{"SECTILE_CUDA_LIBRARY", root / "driver.so"}}};
  size_t expected = 1;
  for (const auto &other : others) {
    EXPECT_EQ(launch(other).driver, 0);
    EXPECT_EQ(assembled().size(), ++expected)
        << "the code of another was taken: " << other.begin()->first;
    EXPECT_EQ(launch(other).driver, 0);
    EXPECT_EQ(assembled().size(), expected);
  }
  EXPECT_EQ(launch({}, "cuda:1").driver, 0);
  EXPECT_EQ(assembled().back(), "sm_86");
  EXPECT_EQ(assembled().front(), "sm_90a");
  EXPECT_EQ(launch({}, "cuda:1").driver, 0);
  EXPECT_EQ(launch().driver, 0);
  EXPECT_EQ(assembled().size(), ++expected);
  // Code of an older chip's target is for the chip that is there.
  EXPECT_EQ(launch({{"SECTILE_CUDA_TARGET", "sm_80"}}).driver, 0);
  EXPECT_EQ(assembled().back(), "sm_90");
}

// With .reqntid alone ptxas may leave a thread few registers.
TEST_F(MachineCode, WhatSpillsIsAssembledInAnotherFormToo) {
  const std::map<std::string, std::string> spills = {{"FAKE_CUDA_SPILLS", "1"}};
  EXPECT_EQ(launch().spilt, 0);
  EXPECT_EQ(assembled().size(), 1u) << "code that does not spill needs no other form";
  fs::remove(entries().at(0));
  const Said first = launch(spills);
  EXPECT_EQ(first.spilt, 8);
  EXPECT_EQ(first.driver, 0);
  EXPECT_EQ(assembled().size(), 4u);
  EXPECT_EQ(launch(spills).spilt, 8) << "the cache has the better form";
  EXPECT_EQ(assembled().size(), 4u);
}

TEST_F(MachineCode, WithoutPtxasTheDriverTriesTheForms) {
  const Said said = launch({{"FAKE_CUDA_SPILLS", "1"}, {"SECTILE_PTXAS", ""}});
  EXPECT_EQ(said.spilt, 8);
  EXPECT_EQ(said.driver, 3);
  EXPECT_EQ(launch({{"SECTILE_PTXAS", ""}}).driver, 1);
}

std::string ptxWith(const std::string &directives, const std::string &body) {
  return ".version 8.0\n.visible .entry k(\n  .param .u32 x\n)\n" + directives + "{\n" + body +
         "  ret; // .maxnreg\n}\n";
}

// A limit that the launch asks for is kept, whatever spills.
TEST(PtxForms, LimitsAreKept) {
  EXPECT_THAT(otherForms(ptxWith(".reqntid 256\n", "")),
              ElementsAre(ptxWith(".minnctapersm 1\n.reqntid 256\n", "")));
  for (const char *limit : {".maxnreg 64\n", ".minnctapersm 2\n"})
    EXPECT_THAT(otherForms(ptxWith(".reqntid 256\n" + std::string(limit), "")), IsEmpty()) << limit;
  EXPECT_THAT(otherForms(".func f\n.reqntid 1\n{"), IsEmpty());
}

// A second block gets room where a few registers more than it has keep it off.
TEST(PtxForms, TwoBlocksOfAMultiprocessor) {
  const Chip &chip = Chip::known("sm_90a");
  const std::string ptx = ptxWith(".reqntid 256, 1, 1\n", "");
  const auto two = [&](unsigned registers, unsigned sharedBytes) {
    return formForTwo(ptx, registers, sharedBytes, chip);
  };
  EXPECT_EQ(two(129, 100 << 10), ptxWith(".minnctapersm 2\n.reqntid 256, 1, 1\n", ""));
  EXPECT_TRUE(two(160, 0));
  EXPECT_FALSE(two(128, 0)) << "there is room";
  EXPECT_FALSE(two(161, 0)) << "far from it";
  EXPECT_FALSE(two(129, 114 << 10)) << "shared memory has none";
  EXPECT_TRUE(two(129, 113 << 10));
  for (const char *limit : {".maxnreg 64\n", ".minnctapersm 1\n"})
    EXPECT_FALSE(formForTwo(ptxWith(std::string(limit) + ".reqntid 256\n", ""), 129, 0, chip));
  EXPECT_TRUE(formForTwo(ptxWith(".reqntid 512\n", ""), 80, 0, chip));
  EXPECT_FALSE(formForTwo(ptxWith(".reqntid 128\n", ""), 255, 0, chip)) << "there is room";
  EXPECT_FALSE(formForTwo(ptxWith(".reqntid 1024\n", ""), 64, 0, chip)) << "32 are far from it";
}

// An index that the assembler may read again takes no register.
TEST(PtxForms, ThePlainIndexIsTheFirst) {
  const auto reads = [](const std::string &operation) {
    return "{\n\t.reg .b32 index;\n\tmov.u32 index, %tid.x;\n\t" + operation + "\n\t}\n";
  };
  std::string hidden(indexOfThread);
  hidden.replace(hidden.find("$0"), 2, "%r7");
  ASSERT_EQ(hidden + "\n", reads("and.b32 %r7, index, 1023;"));
  const std::string plain = reads("mov.b32 %r7, index;");
  EXPECT_THAT(otherForms(ptxWith(".reqntid 256\n", hidden + "\n")),
              ElementsAre(ptxWith(".reqntid 256\n", plain),
                          ptxWith(".minnctapersm 1\n.reqntid 256\n", plain)));
  EXPECT_THAT(otherForms(ptxWith(".maxnreg 64\n.reqntid 256\n", hidden + "\n")),
              ElementsAre(ptxWith(".maxnreg 64\n.reqntid 256\n", plain)));
}

// Releases differ in their faults.
TEST_F(MachineCode, OnlyAPtxasOfTheDriversReleaseIsUsed) {
  for (const auto &variables : std::vector<std::map<std::string, std::string>>{
           {{"RELEASE", "12.8"}}, {{"SECTILE_PTXAS", ""}}, {{"SECTILE_PTXAS", "/no/ptxas"}}}) {
    EXPECT_EQ(launch(variables).driver, 1);
    EXPECT_EQ(launch(variables).driver, 1) << "the driver's code is not ours to keep";
  }
  EXPECT_TRUE(assembled().empty());
  EXPECT_TRUE(entries().empty());
}

TEST_F(MachineCode, TheDriverCompilesWherePtxasFailsOrItsCodeIsRefused) {
  EXPECT_EQ(launch({{"FAILS", "1"}}).driver, 1);
  EXPECT_TRUE(entries().empty());
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(launch({{"CHIP", "sm_75"}}).driver, 1);
  EXPECT_EQ(assembled().size(), 2u);
}

TEST_F(MachineCode, DamagedCodeIsMadeAnew) {
  launch();
  const fs::path entry = entries().at(0);
  for (const uintmax_t cut : {fs::file_size(entry) - 1, uintmax_t{0}}) {
    fs::resize_file(entry, cut);
    testing::internal::CaptureStderr();
    EXPECT_EQ(launch().driver, 0);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("set aside"));
    EXPECT_TRUE(fs::exists(entry.string() + ".bad"));
    EXPECT_EQ(launch().driver, 0);
  }
  EXPECT_EQ(assembled().size(), 3u);
}

TEST_F(MachineCode, OfSixtyFourProcessesOneAssembles) {
  expectAllWell(start(count(16, 64), [&](unsigned) {
    setenv("SECTILE_CACHE_DIR", folder.c_str(), 1);
    setenv("SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA, 1);
    setenv("SECTILE_PTXAS", ptxas.c_str(), 1);
    setenv("FAKE_CUDA_VERSION", "13000", 1);
    const std::string said = run(Device::open("cuda:0"));
    return said.starts_with("1") && said.ends_with(" 0 0") ? 0 : 1;
  }));
  EXPECT_EQ(assembled().size(), 1u);
}

TEST_F(MachineCode, IsListedWithItsKernel) {
  launch();
  const DiskStore store(folder, 1 << 20);
  const auto all = listCache(store);
  const auto code = std::find_if(all.begin(), all.end(), [](const ListedEntry &entry) {
    return entry.kind == ListedEntry::Machine;
  });
  ASSERT_NE(code, all.end());
  EXPECT_EQ(code->parts.kernel, "fake_add");
  EXPECT_GT(code->codeBytes, 100u);
  EXPECT_THAT(code->key, testing::AllOf(testing::HasSubstr("\nchip sm_90a\n"),
                                        testing::HasSubstr("\ndriver CUDA 13.0 build "),
                                        testing::HasSubstr("\nassembler V13.0.1 fake\n")));
}
