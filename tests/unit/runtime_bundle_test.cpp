// Bundles: what is written is read, a launch finds its code and the best of its variants, and
// whatever a file holds is refused in one sentence or harmless.
#include "BundleKernels.h"
#include "jit/BundleWriter.h"
#include "jit/LaunchVariants.h"
#include "runtime/LaunchAccess.h"
#include "runtime/LaunchFacts.h"
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <random>
#include <sectile/bundle.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace sectile;
using namespace sectile::runtime;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

const bool chosen = setenv("SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA, 1) == 0 &&
                    setenv("FAKE_CUDA_CAPABILITY", "90", 1) == 0 &&
                    setenv("SECTILE_CACHE_DIR", "", 1) == 0;

template <class Failure = InputError> std::string refused(const std::function<void()> &f) {
  try {
    f();
  } catch (const Failure &error) {
    return error.what();
  }
  return "nothing was thrown";
}

const std::vector<detail::ArgSpec> signature{{detail::ArgKind::pointer, DType::float32, 0, true},
                                             {detail::ArgKind::index, DType::int64, 0, true}};

BundleKey keyFor(std::string target, std::vector<uint64_t> configuration = {7}) {
  return {.kernel = "scale",
          .signature = signature,
          .target = std::move(target),
          .warps = 4,
          .stages = 3,
          .debug = true,
          .configuration = std::move(configuration)};
}

Artifact codeFor(std::string target, std::string bytes, std::vector<ArgumentFacts> facts = {}) {
  Artifact artifact;
  artifact.target = std::move(target);
  artifact.kind = "ptx";
  artifact.entry = "scale";
  artifact.bytes = std::move(bytes);
  artifact.plan.threads = 128;
  artifact.plan.arguments = std::move(facts);
  return artifact;
}

// A launch of the kernel `scale`, as a bundle is asked for it.
struct Launch {
  std::string name = "scale";
  std::vector<detail::ArgSpec> specs = signature;
  std::vector<uint64_t> words{1024, 64}, configuration{7};
  CompileOptions options = {};
  unsigned longAxis = 0;
  bool isOfProgram = true; // else only a bundle has the kernel
  Device device = Device::open("cuda:0");

  template <class Use> auto with(Use use) const {
    const detail::KernelDesc desc{name, specs, nullptr, isOfProgram ? this : nullptr};
    const detail::PackedLaunch packed{words.data(),         nullptr, nullptr, configuration.data(),
                                      configuration.size(), nullptr, {}};
    const std::vector<ArgumentMask> masks = countingBits(specs, noBound);
    Activities activities(name, device.name(), [] { return ""; });
    return use(CodeRequest{desc, *device.impl(), packed, options, masks, longAxis, activities});
  }
  // The code that it gets; "" where there is none.
  std::string codeIn(const Bundle &bundle) const {
    return with([&](const CodeRequest &request) {
      const auto artifact = bundle.find(request);
      return artifact ? artifact->bytes : "";
    });
  }
  std::string whyNoneIn(const Bundle &bundle) const {
    return with([&](const CodeRequest &request) { return bundle.whyNone(request); });
  }
};

const std::vector<uint64_t> unalignedWords{1024, 63};

const BundledChoice someChoice{"scale", "sm_90a", "f32", {{"M", 64}, {"N", 128}},
                               "m=64",  "m=64",   true};

std::string someBundle() {
  BundleWriter writer(R"({"built":"today"})");
  writer.add(keyFor("sm_80"), codeFor("sm_80", "code for sm_80"));
  writer.add(keyFor("sm_90a"), codeFor("sm_90a", "code of any arguments"));
  writer.add(keyFor("sm_90a"), codeFor("sm_90a", "code of aligned arguments", {{16}, {16}}));
  writer.add(keyFor("sm_90a", {8}), codeFor("sm_90a", "code for sm_80"));
  writer.add(someChoice);
  return writer.bytes();
}

// The bytes with the checksum that they need.
std::string checksummed(std::string bytes) {
  const uint64_t checksum = XXH3_64bits(bytes.data() + 32, bytes.size() - 32);
  bytes.replace(24, 8, reinterpret_cast<const char *>(&checksum), 8);
  return bytes;
}

std::string whyRefused(const std::string &bytes) {
  return refused([&] { Bundle::of(bytes, "app.sectile"); });
}

TEST(Bundle, WhatIsWrittenIsRead) {
  const std::string bytes = someBundle();
  const auto bundle = Bundle::of(bytes, "app.sectile");
  EXPECT_EQ(bundle->countKernels(), 1u);
  EXPECT_EQ(bundle->countVariants(), 4u);
  EXPECT_EQ(bundle->countCodes(), 3u); // two variants have the same code
  EXPECT_EQ(bundle->about(), R"({"built":"today"})");
  EXPECT_EQ(bundle->identity().size(), 32u);
  EXPECT_THAT(bundle->choices(), testing::ElementsAre(someChoice));
  EXPECT_EQ(bytes, someBundle()); // the same contents are the same bytes
  BundleWriter other("{}");
  other.add(keyFor("sm_80"), codeFor("sm_80", "other code"));
  const std::string otherBytes = other.bytes();
  EXPECT_NE(Bundle::of(otherBytes, "other")->identity(), bundle->identity());
  const std::string none = BundleWriter("").bytes();
  EXPECT_EQ(Bundle::of(none, "empty")->countKernels(), 0u);
}

TEST(Bundle, AnArtifactComesBackWhole) {
  Artifact artifact = codeFor("sm_90a", "code", {{16}, {8, 0, 1 << 20}});
  artifact.plan.firstTensorMap = 2;
  artifact.plan.wait = WaitPoint::ByHand;
  artifact.plan.tensorMaps.push_back({.pointer = 0,
                                      .elementBytes = 4,
                                      .swizzle = 128,
                                      .extents = {{.argument = 1}, {.constant = 3}},
                                      .strides = {{.argument = 1}},
                                      .box = {32, 8}});
  artifact.resources.registers = 77;
  BundleWriter writer("");
  writer.add(keyFor("sm_90a"), artifact);
  const std::string bytes = writer.bytes();
  const auto bundle = Bundle::of(bytes, "app.sectile");
  Launch().with([&](const CodeRequest &request) {
    const auto found = bundle->find(request);
    ASSERT_TRUE(found);
    EXPECT_EQ(serialize(*found), serialize(artifact));
  });
}

TEST(Bundle, TheVariantOfMostFactsIsTaken) {
  const std::string bytes = someBundle();
  const auto bundle = Bundle::of(bytes, "app.sectile");
  EXPECT_EQ(Launch().codeIn(*bundle), "code of aligned arguments");
  EXPECT_EQ(Launch{.words = unalignedWords}.codeIn(*bundle), "code of any arguments");
  EXPECT_EQ(Launch{.configuration = {8}}.codeIn(*bundle), "code for sm_80");
}

TEST(Bundle, TwoKernelsThatALaunchCannotTellApartAreRefused) {
  BundleWriter writer("");
  const auto codeOf = [](const char *ir, std::vector<ArgumentFacts> facts = {}) {
    Artifact code = codeFor("sm_90a", std::string("code of ") + ir, facts);
    code.irHash = ir;
    return code;
  };
  writer.add(keyFor("sm_90a"), codeOf("one"));
  writer.add(keyFor("sm_90a"), codeOf("one"));
  // Other configurations and assumptions have other code.
  writer.add(keyFor("sm_90a", {8}), codeOf("two"));
  writer.add(keyFor("sm_90a"), codeOf("three", {{16}, {16}}));
  EXPECT_EQ(refused([&] { writer.add(keyFor("sm_90a"), codeOf("four")); }),
            "two kernels of the bundle are named 'scale', and take the same types of arguments and "
            "the same configuration: a launch could not tell them apart. Give them different "
            "names, or make what they differ in, such as a captured variable, a field of the "
            "configuration");
}

TEST(Bundle, AnOlderChipsPtxIsTakenWhereThereIsNoOther) {
  BundleWriter writer("");
  writer.add(keyFor("sm_80"), codeFor("sm_80", "oldest"));
  writer.add(keyFor("sm_89"), codeFor("sm_89", "older"));
  writer.add(keyFor("sm_100"), codeFor("sm_100", "newer"));
  writer.add(keyFor("gfx942"), codeFor("gfx942", "another vendor's"));
  Artifact machine = codeFor("sm_90", "machine code");
  machine.kind = "cubin";
  writer.add(keyFor("sm_90"), machine);
  const std::string bytes = writer.bytes();
  EXPECT_EQ(Launch().codeIn(*Bundle::of(bytes, "app.sectile")), "older");
}

TEST(Bundle, ChecksAreThoseThatALaunchWants) {
  BundleKey plain = keyFor("sm_90a"), checked = plain;
  plain.debug = false;
  checked.checked = true;
  BundleWriter writer("");
  writer.add(plain, codeFor("sm_90a", "without assertions"));
  writer.add(checked, codeFor("sm_90a", "checked"));
  std::string bytes = writer.bytes();
  auto bundle = Bundle::of(bytes, "app.sectile");
  EXPECT_EQ(Launch{.options = {.checked = true}}.codeIn(*bundle), "checked");
  // Where there are assertions or not, a launch takes what there is.
  EXPECT_EQ(Launch().codeIn(*bundle), "without assertions");
  writer.add(keyFor("sm_90a"), codeFor("sm_90a", "with assertions"));
  bytes = writer.bytes();
  bundle = Bundle::of(bytes, "app.sectile");
  EXPECT_EQ(Launch().codeIn(*bundle), "with assertions");
  EXPECT_EQ(Launch{.options = {.debug = false}}.codeIn(*bundle), "without assertions");
}

TEST(Bundle, MachineCodeGoesWithItsPtx) {
  Artifact ptx = codeFor("sm_90a", "code"), machine = ptx, others = ptx;
  machine.kind = others.kind = "cubin";
  machine.bytes = "machine code";
  others.bytes = "machine code of aligned arguments";
  others.plan.arguments = {{16}, {16}};
  BundleWriter writer("");
  writer.add(keyFor("sm_90a"), others);
  writer.add(keyFor("sm_90a"), machine);
  writer.add(keyFor("sm_90a"), ptx);
  const auto found = [](const Launch &launch, const BundleWriter &writer) {
    const std::string bytes = writer.bytes();
    const auto bundle = Bundle::of(bytes, "app.sectile");
    return launch.with([&](const CodeRequest &request) {
      const auto artifact = bundle->find(request);
      return std::tuple(artifact->kind, artifact->bytes, artifact->machineCode);
    });
  };
  EXPECT_EQ(found({.words = unalignedWords}, writer),
            std::tuple("ptx", "code", "machine code")); // where the driver refuses it, the PTX
  // There may be machine code alone.
  EXPECT_EQ(found({}, writer), std::tuple("cubin", "machine code of aligned arguments", ""));
  // Another chip's machine code is none.
  BundleWriter older("");
  machine.target = ptx.target = "sm_89";
  older.add(keyFor("sm_89"), machine);
  older.add(keyFor("sm_89"), ptx);
  EXPECT_EQ(found({}, older), std::tuple("ptx", "code", ""));
}

TEST(Bundle, ARefusalSaysWhatIsMissing) {
  const std::string bytes = someBundle();
  const auto bundle = Bundle::of(bytes, "app.sectile");
  const auto otherwise = [](const std::string &text) {
    return text + ", or link Sectile::sectile, which compiles here";
  };
  EXPECT_EQ(Launch{.name = "other"}.whyNoneIn(*bundle),
            otherwise("app.sectile does not have it: add it to the bundle"));
  EXPECT_EQ((Launch{.name = "other", .isOfProgram = false}.whyNoneIn(*bundle)),
            "app.sectile does not have it: add it to the bundle");
  EXPECT_EQ(
      Launch{.specs = {}}.whyNoneIn(*bundle),
      otherwise("app.sectile has it for arguments (Ptr<const f32>, Int), not for (): add it to "
                "the bundle"));
  EXPECT_EQ(Launch{.configuration = {9}}.whyNoneIn(*bundle),
            otherwise("app.sectile has no code of it for sm_90a with this configuration, 4 warps "
                      "and 3 stages: add it to the bundle"));
  EXPECT_EQ(Launch{.longAxis = 1}.whyNoneIn(*bundle),
            otherwise("app.sectile has no code of it with this grid's long axis and these checks: "
                      "add it to the bundle"));
  BundleWriter aligned("");
  aligned.add(keyFor("sm_90a"), codeFor("sm_90a", "code", {{16}, {16}}));
  const std::string alignedBytes = aligned.bytes();
  EXPECT_EQ(Launch{.words = unalignedWords}.whyNoneIn(*Bundle::of(alignedBytes, "app.sectile")),
            otherwise("app.sectile's code for sm_90a is for other arguments: argument 1 is 63, no "
                      "multiple of 16: add these arguments to the bundle"));
  BundleWriter amd("");
  amd.add(keyFor("gfx942"), codeFor("gfx942", "code"));
  amd.add(keyFor("gfx90a"), codeFor("gfx90a", "code"));
  const std::string amdBytes = amd.bytes();
  EXPECT_EQ(
      Launch().whyNoneIn(*Bundle::of(amdBytes, "app.sectile")),
      otherwise("app.sectile has no code of it for sm_90a (but for gfx90a, gfx942): build the "
                "bundle for sm_90a, too"));
}

// Code sources ----------------------------------------------------------------------------------

// Keeps the key of each launch that needs code, and has none itself.
struct Recorder : CodeSource {
  std::shared_ptr<const Artifact> find(const CodeRequest &request) const override {
    last = bundleKeyOf(request);
    return nullptr;
  }
  std::string whyNone(const CodeRequest &) const override { return "nothing is kept"; }
  mutable BundleKey last;
};

const Kernel kernel{"bundled", [](Ptr<const float> x, Ptr<const float> y, Ptr<float> z, Int n,
                                  const BundleBlock &block) {
                      const auto i = program_id(0) * block.size + arange(0, block.size);
                      const auto inside = i < n;
                      store(z + i, load(x + i, inside) + load(y + i, inside) + 1.0f, inside);
                    }};

TEST(Bundle, ASealedKernelRunsTheCodeOfABundle) {
  const Device device = Device::open("virtual:sm_80");
  const int n = 1000;
  const BundleBlock block;
  const auto x = device.upload(std::vector<float>(n, 2)),
             y = device.upload(std::vector<float>(n, 3)), z = device.allocate<float>(n);
  const auto launch = [&](BundleBlock of) { launchSealed(device.stream(), x, y, z, n, of); };
  EXPECT_THAT(refused<CompileError>([&] { launch(block); }),
              HasSubstr("kernel 'bundled' was compiled with SECTILE_SEALED, so there is nothing to "
                        "compile here: link Sectile::sectile in place of Sectile::runtime"));

  const auto recorder = std::make_shared<Recorder>();
  addCodeSource(recorder);
  const auto bound = kernel.bind(cdiv(n, block.size), x, y, z, n, block);
  const auto artifact = LaunchAccess::code(bound, device);
  EXPECT_EQ(recorder->last.kernel, "bundled");
  EXPECT_EQ(recorder->last.target, "virtual:sm_80");
  BundleWriter writer("");
  writer.add(recorder->last, *artifact);
  static const std::string bytes = writer.bytes(); // the source stays until the process ends
  load_bundle(std::as_bytes(std::span(bytes)), "app.sectile");

  launch(block);
  EXPECT_EQ(z.download(), std::vector<float>(n, 6));
  // What the bundle does not have, the compiler is asked for.
  EXPECT_THAT(refused<CompileError>([&] { launch({.size = 256}); }), HasSubstr("SECTILE_SEALED"));
}

// Variants --------------------------------------------------------------------------------------

const Kernel viewed{"viewed",
                    [](View<const float, 2>, View<float, 1>, Ptr<float>, Int, Tile<int>) {}};

std::string assumed(const detail::BoundLaunch &launch, Assumes assumes, const char *chip) {
  const std::string text =
      LaunchAccess::specialization(variantOf(launch, assumes), Chip::known(chip));
  return text.substr(std::min(text.size(), text.find("stages=3") + 8));
}

TEST(Bundle, CodeIsForTheseArgumentsForAlignedOnesAndForAny) {
  const auto address = [](uint64_t value) { return reinterpret_cast<float *>(value); };
  const Tensor<float, 2> transposed(address(256), {40, 24}, {1, 40});
  const auto launch =
      viewed.bind(1, transposed, Tensor<float, 1>(address(264), {9}, {1}), address(4), 7, 16);
  // The view's address, extents and strides; the next one's; address, index, integer.
  EXPECT_EQ(assumed(launch, Assumes::likeThese, "sm_80"), " 0:16 1:8 2:8 3=1 4:8 7=1 10:16");
  EXPECT_EQ(assumed(launch, Assumes::aligned, "sm_80"), " 0:16 1:16 3=1 4:16 5:16 7=1 8:16");
  const std::string wide = " 1:64bit 2:64bit 3:64bit 4:64bit 6:64bit 7:64bit 9:64bit";
  EXPECT_EQ(assumed(launch, Assumes::nothing, "sm_80"), wide);
  // Without arguments the last axis of a view is the dense one.
  const auto any = viewed.bind_any();
  EXPECT_EQ(assumed(any, Assumes::aligned, "sm_80"), " 0:16 2:16 3:16 4=1 5:16 7=1 8:16");
  EXPECT_EQ(assumed(any, Assumes::nothing, "sm_80"), wide);
  // Chips whose accesses have other forms for small numbers: the copy engine's extents and strides,
  // a buffer's strides.
  EXPECT_EQ(assumed(any, Assumes::aligned, "sm_90a"),
            " 0:16 1:<1073741824 2:16:<1073741824 3:16:<1073741824 4=1 5:16 6:<1073741824 7=1 8:16 "
            "9:<1073741824");
  EXPECT_EQ(assumed(any, Assumes::aligned, "gfx942"), " 0:16 2:16 3:16:<1048576 4=1 5:16 7=1 8:16");
  EXPECT_EQ(assumed(any, Assumes::nothing, "sm_90a"), wide);
  EXPECT_EQ(assumed(any, Assumes::nothing, "gfx942"), wide);
}

const Kernel written{"written", [](View<float, 3>, View<const float, 2>) {}};

TEST(Bundle, AlignedCodeIsForElementsThatDoNotOverlap) {
  const auto any = written.bind_any();
  for (const char *chip : {"sm_80", "sm_90a", "gfx942"}) {
    EXPECT_THAT(assumed(any, Assumes::aligned, chip), StartsWith(" 0:16:distinct "));
    EXPECT_THAT(assumed(any, Assumes::nothing, chip), Not(HasSubstr("distinct")));
  }
  LaunchPlan plan;
  plan.arguments.resize(5);
  plan.arguments[0].distinct = 2;
  const auto broken = [&](std::vector<uint64_t> words) { return brokenFact(plan, words); };
  EXPECT_EQ(broken({0, 4, 8, 8, 1}), "");
  EXPECT_EQ(broken({0, 4, 8, 7, 1}), "elements of the view at argument 0 overlap");
  EXPECT_EQ(broken({0, 4, 8, 8}), "elements of the view at argument 0 overlap");
}

// Files -----------------------------------------------------------------------------------------

TEST(Bundle, EveryTruncatedFileIsRefusedInOneSentence) {
  const std::string bytes = someBundle();
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(whyRefused(bytes.substr(0, size)),
              "bundle 'app.sectile' is " +
                  (size == 0 ? "no bundle of Sectile's"
                             : "cut off: it has " + std::to_string(size) + " bytes" +
                                   (size < 64 ? ", its head alone has 64"
                                              : " of " + std::to_string(bytes.size()))))
        << size;
}

TEST(Bundle, EveryChangedByteIsNoticed) {
  const std::string bytes = someBundle();
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] ^= 1;
    EXPECT_THAT(whyRefused(changed),
                AnyOf(HasSubstr("is no bundle of Sectile's"), HasSubstr("has format "),
                      HasSubstr("is cut off: "), HasSubstr("was changed: its checksum is wrong")))
        << i;
  }
  EXPECT_THAT(whyRefused(bytes + "x"), HasSubstr("was changed: its checksum is wrong"));
}

TEST(Bundle, OtherFormatsAreNamed) {
  std::string bytes = someBundle();
  bytes[8] = 1;
  EXPECT_EQ(whyRefused(bytes), "bundle 'app.sectile' has format 1, but this library reads format "
                               "2: build the bundle again");
  bytes = someBundle();
  bytes[36] = 1;
  EXPECT_THAT(whyRefused(checksummed(bytes)),
              testing::MatchesRegex("bundle 'app.sectile' has code in format 1, but this library "
                                    "reads format [0-9]+: build the bundle again"));
  bytes = someBundle();
  const uint64_t version = 90807;
  bytes.replace(56, 8, reinterpret_cast<const char *>(&version), 8);
  EXPECT_EQ(whyRefused(checksummed(bytes)),
            "bundle 'app.sectile' was built by Sectile 9.8.7, this is " SECTILE_VERSION_STRING
            ": build the bundle again");
  EXPECT_EQ(whyRefused("#!/bin/sh"), "bundle 'app.sectile' is no bundle of Sectile's");
}

// Whoever writes a right checksum may write anything.
TEST(Bundle, WrongContentsDoNoHarm) {
  const std::string bytes = someBundle();
  std::mt19937 random(1);
  int readable = 0;
  std::map<std::string, int> refusals;
  const Launch launch;
  for (int round = 0; round < 20000; ++round) {
    std::string changed = bytes;
    for (unsigned edits = 1 + random() % 4; edits; --edits) {
      const size_t at = 32 + random() % (changed.size() - 32);
      const uint64_t values[] = {random(), 0, ~uint64_t{0}, changed.size(), uint64_t{1} << 32};
      const uint64_t value = values[random() % std::size(values)];
      const size_t size = std::min<size_t>(size_t{1} << random() % 4, changed.size() - at);
      changed.replace(at, size, reinterpret_cast<const char *>(&value), size);
    }
    changed = checksummed(changed);
    try {
      const auto bundle = Bundle::of(changed, "app.sectile");
      launch.codeIn(*bundle);
      launch.whyNoneIn(*bundle);
      ++readable;
    } catch (const InputError &error) {
      ++refusals[error.what()];
    }
  }
  EXPECT_GT(readable, 0);
  for (const char *why :
       {"is damaged: a section lies beyond its end",
        "is damaged: its list of kernels cannot be read",
        "is damaged: an argument of 'scale' is of no type", "is damaged: its codes cannot be read",
        "is damaged: its list of variants cannot be read",
        "is damaged: a variant is of a kernel or a code that is not there",
        "is damaged: the description of a code cannot be used",
        "is damaged: its choices cannot be read"})
    EXPECT_TRUE(refusals.contains("bundle 'app.sectile' " + std::string(why))) << why;
}

TEST(Bundle, CompressedCodeIsReadOrRefused) {
  const std::string code(5000, 'c');
  const auto bytesOf = [&](bool compresses) {
    BundleWriter writer("", compresses);
    writer.add(keyFor("sm_90a"), codeFor("sm_90a", code));
    return writer.bytes();
  };
  const std::string bytes = bytesOf(true), plain = bytesOf(false);
  EXPECT_LT(bytes.size() + 4000, plain.size());
  EXPECT_TRUE(Bundle::of(bytes, "app.sectile")->isCompressed());
  EXPECT_FALSE(Bundle::of(plain, "app.sectile")->isCompressed());
  EXPECT_EQ(Launch().codeIn(*Bundle::of(bytes, "app.sectile")), code);
  EXPECT_EQ(Bundle::of(bytes, "app.sectile")->contents().at(0).artifact.bytes, code);
  // The size of what a frame holds follows it; its own magic number begins it.
  const auto changed = [&](const std::string &from, const std::string &to) {
    std::string other = bytes;
    return checksummed(other.replace(other.find(from), from.size(), to));
  };
  const auto number = [](uint64_t value) {
    return std::string(reinterpret_cast<const char *>(&value), sizeof value);
  };
  for (const std::string &wrong :
       {changed("\x28\xb5\x2f\xfd", "none"), changed(number(5000), number(4999)),
        changed(number(5000), number(5001))}) {
    const auto bundle = Bundle::of(wrong, "app.sectile");
    EXPECT_EQ(refused<LaunchError>([&] { Launch().codeIn(*bundle); }),
              "kernel 'scale': bundle 'app.sectile' is damaged: a code cannot be decompressed");
    EXPECT_THAT(refused([&] { bundle->contents(); }), HasSubstr("cannot be decompressed"));
  }
  EXPECT_THAT(whyRefused(changed(number(5000), number(uint64_t(1) << 40))),
              HasSubstr("is damaged: a code has more than"));
}

TEST(Bundle, ACodeOfWrongPlanIsRefused) {
  const auto why = [](const std::function<void(Artifact &)> &edit) {
    Artifact artifact = codeFor("sm_90a", "code", {{1}, {1}});
    artifact.plan.firstTensorMap = 2;
    artifact.plan.tensorMaps.push_back({.pointer = 0,
                                        .elementBytes = 4,
                                        .extents = {{.argument = 1}, {.constant = 3}},
                                        .strides = {{.argument = 1}},
                                        .box = {32, 8}});
    edit(artifact);
    BundleWriter writer("");
    writer.add(keyFor("sm_90a"), artifact);
    return whyRefused(writer.bytes());
  };
  const auto wrong = HasSubstr("is damaged: the description of a code cannot be used");
  EXPECT_EQ(why([](Artifact &) {}), "nothing was thrown");
  EXPECT_THAT(why([](Artifact &a) { a.plan.firstTensorMap = 3; }), wrong);
  EXPECT_THAT(why([](Artifact &a) { a.plan.arguments.resize(3); }), wrong);
  EXPECT_THAT(why([](Artifact &a) { a.plan.tensorMaps[0].pointer = 2; }), wrong);
  EXPECT_THAT(why([](Artifact &a) { a.plan.tensorMaps[0].extents[0].argument = 2; }), wrong);
  EXPECT_THAT(why([](Artifact &a) { a.plan.tensorMaps[0].strides[0].bits = 65; }), wrong);
  EXPECT_THAT(why([](Artifact &a) { a.plan.tensorMaps[0].strides.clear(); }), wrong);
  EXPECT_THAT(why([](Artifact &a) { a.plan.tensorMaps[0].box.pop_back(); }), wrong);
  EXPECT_THAT(why([](Artifact &a) { a.plan.tensorMaps[0].extents.resize(6); }), wrong);
}

TEST(Bundle, AFileIsRead) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("bundle." + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "app.sectile").string();
  const auto why = [&] { return refused([&] { Bundle::open(path); }); };
  EXPECT_EQ(why(), "bundle '" + path + "' cannot be read: No such file or directory");
  std::ofstream(path) << someBundle();
  EXPECT_EQ(Bundle::open(path)->countVariants(), 4u);
  EXPECT_EQ(Launch().codeIn(*Bundle::open(path)), "code of aligned arguments");
  std::filesystem::permissions(path, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  EXPECT_THAT(why(), HasSubstr("could have been written by others: it must belong to you or to "
                               "root, and not be writable by everybody"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(why(), HasSubstr("is no file"));
  std::filesystem::remove_all(folder);
}

} // namespace
