// Functions of bitcode libraries on every device, with libraries made here; and inline assembly,
// which runs on chips only, and its meaning elsewhere.
#include "Apply.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>

using namespace sectile;
using sectile::test::apply;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

/// A folder of its own for each test.
class Extern : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  /// A library of: cube(float), blend(i32, i32) = factor · a + b through a helper, half of a
  /// double, flip(bool), unfinished(float), which calls what is not there.
  std::string library(const char *name, int factor = 3, const char *blendName = "blend") {
    llvm::LLVMContext context;
    llvm::Module module("library", context);
    module.setTargetTriple(llvm::Triple("x86_64-unknown-linux-gnu"));
    llvm::IRBuilder<> b(context);
    auto define = [&](const char *symbol, llvm::Type *result, std::vector<llvm::Type *> types) {
      auto *function = llvm::Function::Create(llvm::FunctionType::get(result, types, false),
                                              llvm::Function::ExternalLinkage, symbol, module);
      function->addFnAttr("target-cpu", "x86-64");
      function->addFnAttr(llvm::Attribute::NoInline);
      b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));
      return function;
    };
    auto *cube = define("cube", b.getFloatTy(), {b.getFloatTy()});
    llvm::Value *x = cube->getArg(0);
    b.CreateRet(b.CreateFMul(b.CreateFMul(x, x), x));
    auto *table =
        new llvm::GlobalVariable(module, b.getInt32Ty(), true, llvm::GlobalValue::ExternalLinkage,
                                 b.getInt32(static_cast<unsigned>(factor)), "factor");
    auto *helper = define("helper", b.getInt32Ty(), {b.getInt32Ty()});
    b.CreateRet(b.CreateMul(helper->getArg(0), b.CreateLoad(b.getInt32Ty(), table)));
    auto *blend = define(blendName, b.getInt32Ty(), {b.getInt32Ty(), b.getInt32Ty()});
    llvm::Value *product = b.CreateCall(helper, {blend->getArg(0)});
    b.CreateRet(b.CreateAdd(product, blend->getArg(1)));
    auto *half = define("half_of", b.getDoubleTy(), {b.getDoubleTy()});
    b.CreateRet(b.CreateFMul(half->getArg(0), llvm::ConstantFP::get(b.getDoubleTy(), 0.5)));
    auto *flip = define("flip", b.getInt1Ty(), {b.getInt1Ty()});
    b.CreateRet(b.CreateNot(flip->getArg(0)));
    auto missing = module.getOrInsertFunction("not_there", b.getFloatTy(), b.getFloatTy());
    auto *unfinished = define("unfinished", b.getFloatTy(), {b.getFloatTy()});
    llvm::Value *answer = b.CreateCall(missing, {unfinished->getArg(0)});
    b.CreateRet(answer);
    const std::string path = (folder / name).string();
    std::error_code error;
    llvm::raw_fd_ostream out(path, error);
    llvm::WriteBitcodeToFile(module, out);
    return path;
  }

  const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                       ("sectile-extern-" + std::to_string(getpid()) + "-" +
                                        std::to_string(std::hash<std::string>()(GetParam())));
};
INSTANTIATE_TEST_SUITE_P(Devices, Extern, testing::ValuesIn(sectile::test::devices()),
                         sectile::test::testName);

TEST_P(Extern, CallsFunctionsOfALibrary) {
  Device device = Device::open(GetParam());
  const std::string path = library("lib.bc");
  const std::vector<float> x = {-2, 0, 0.5f, 3, 1e10f};
  const auto cubes =
      apply<float>(device, [&](auto a) { return extern_call<float>("cube", path, a); }, x);
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(cubes[i], x[i] * x[i] * x[i]);
  const std::vector<std::int32_t> a = {1, 2, -3, 100}, b = {10, 20, 30, 40};
  const auto blends = apply<std::int32_t>(
      device,
      [&](auto u, auto v) {
        return std::array{extern_call<std::int32_t>("blend", path, u, v),
                          extern_call<std::int32_t>("blend", path, {.pure = false}, u, v)};
      },
      a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(blends[i], 3 * a[i] + b[i]);
    EXPECT_EQ(blends[a.size() + i], 3 * a[i] + b[i]);
  }
  const auto flips = apply<std::uint8_t>(
      device, [&](auto u) { return extern_call<bool>("flip", path, u > 1); }, a);
  EXPECT_EQ(flips, (std::vector<std::uint8_t>{1, 0, 1, 0}));
  const std::vector<double> d = {1.5, -8};
  const auto halves =
      apply<double>(device, [&](auto v) { return extern_call<double>("half_of", path, v); }, d);
  EXPECT_EQ(halves, (std::vector<double>{0.75, -4}));
}

TEST_P(Extern, TheLibrarysContentCounts) {
  Device device = Device::open(GetParam());
  const std::vector<std::int32_t> a = {1, 2}, b = {0, 0};
  auto run = [&] {
    return apply<std::int32_t>(
        device,
        [path = (folder / "lib.bc").string()](auto u, auto v) {
          return extern_call<std::int32_t>("blend", path, u, v);
        },
        a, b);
  };
  library("lib.bc", 3);
  EXPECT_EQ(run(), (std::vector<std::int32_t>{3, 6}));
  library("lib.bc", 5);
  EXPECT_EQ(run(), (std::vector<std::int32_t>{5, 10}));
}

TEST_P(Extern, LibrariesKeepTheirHelpersApart) {
  Device device = Device::open(GetParam());
  const std::string path = library("lib.bc", 3), other = library("other.bc", 5, "mix");
  const auto sums = apply<std::int32_t>(
      device,
      [&](auto u) {
        return extern_call<std::int32_t>("blend", path, u, u) +
               100 * extern_call<std::int32_t>("mix", other, u, u);
      },
      std::vector<std::int32_t>{1, -2});
  EXPECT_EQ(sums, (std::vector<std::int32_t>{604, -1208}));
}

// The kernel may be named as what it calls is, or as what that calls.
TEST_P(Extern, KernelsHaveAnyName) {
  Device device = Device::open(GetParam());
  const std::string path = library("lib.bc");
  for (const char *name : {"blend", "helper", "factor", "cube"}) {
    SCOPED_TRACE(name);
    Kernel kernel{name, [&](Ptr<std::int32_t> y) {
                    auto x = load(y);
                    store(y,
                          extern_call<std::int32_t>("blend", path, x, x) +
                              extern_call<std::int32_t>("blend", path, x, Tile<std::int32_t>(1)));
                  }};
    auto y = device.upload(std::vector<std::int32_t>{7});
    kernel.launch(device.stream(), 1, y);
    EXPECT_EQ(y.download()[0], 28 + 22);
  }
}

// The message of the CompileError that a kernel's launch ends with.
template <class F> std::string faultOf(const Device &device, F function, unsigned line) {
  Kernel kernel{"faulty", function};
  auto out = device.allocate<float>(64);
  try {
    kernel.launch(device.stream(), 1, out);
  } catch (const CompileError &error) {
    EXPECT_EQ(error.line(), line) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "the kernel compiles, but must not";
  return "";
}

#define EXPECT_CALL_FAULT(call, ...)                                                               \
  EXPECT_THAT(faultOf(                                                                             \
                  device,                                                                          \
                  [=](Ptr<float> out) {                                                            \
                    auto i = arange(0, 64);                                                        \
                    auto x = cast<float>(i);                                                       \
                    store(out + i, cast<float>(call));                                             \
                  },                                                                               \
                  __LINE__),                                                                       \
              __VA_ARGS__)

TEST_P(Extern, Mistakes) {
  Device device = Device::open(GetParam());
  const std::string path = library("lib.bc");
  const std::string nowhere = (folder / "nowhere.bc").string();
  const std::string text = (folder / "text.bc").string();
  std::ofstream(text) << "define float @cube(float %x)";
  EXPECT_CALL_FAULT(extern_call<float>("cube", nowhere, x),
                    AllOf(HasSubstr("nowhere.bc cannot be read"), HasSubstr("No such file")));
  EXPECT_CALL_FAULT(extern_call<float>("cube", text, x), HasSubstr("text.bc is not LLVM bitcode"));
  EXPECT_CALL_FAULT(extern_call<float>("tesseract", path, x),
                    HasSubstr("lib.bc defines no function 'tesseract'"));
  EXPECT_CALL_FAULT(extern_call<float>("not_there", path, x),
                    HasSubstr("lib.bc defines no function 'not_there'"));
  EXPECT_CALL_FAULT(extern_call<float>("half_of", path, x),
                    HasSubstr("'half_of' is double (double) in"));
  EXPECT_CALL_FAULT(extern_call<std::int32_t>("blend", path, x),
                    HasSubstr("and is called as i32 (float)"));
  EXPECT_CALL_FAULT(extern_call<float>("unfinished", path, x),
                    HasSubstr("lib.bc calls 'not_there', which it does not define"));
  const std::string other = library("other.bc");
  EXPECT_CALL_FAULT(extern_call<float>("cube", path, x) + extern_call<float>("cube", other, x),
                    HasSubstr("'cube' comes from two libraries: "));
  EXPECT_CALL_FAULT(extern_call<float>("llvm.sqrt.f32", path, x),
                    HasSubstr("'llvm.sqrt.f32' is not the name of a function of a library"));
}

//===-- Assembly
//----------------------------------------------------------------------------------===//

TEST_P(Extern, AssemblyRunsOnChipsOnly) {
  Device device = Device::open(GetParam());
  if (GetParam().starts_with("cuda")) {
    const std::vector<std::uint32_t> x = {0, 1, 0xffffffff, 0x10203040};
    const auto ones = apply<std::uint32_t>(
        device, [](auto a) { return inline_asm<std::uint32_t>("popc.b32 $0, $1;", "=r,r", a); }, x);
    EXPECT_EQ(ones, (std::vector<std::uint32_t>{0, 1, 32, 5}));
    // Four bytes at once, through one register.
    std::vector<std::uint8_t> bytes;
    for (int i = 0; i < 300; ++i)
      bytes.push_back(static_cast<std::uint8_t>(i * 7));
    const auto inverted = apply<std::uint8_t>(
        device,
        [](auto a) { return inline_asm<std::uint8_t>("not.b32 $0, $1;", "=r,r", {.pack = 4}, a); },
        bytes);
    for (size_t i = 0; i < bytes.size(); ++i)
      EXPECT_EQ(inverted[i], static_cast<std::uint8_t>(~bytes[i]));
    return;
  }
  if (GetParam() == "interpreter") {
    try {
      apply<float>(
          device, [](auto a) { return inline_asm<float>("add.f32 $0, $1, $1;", "=f,f", a); },
          std::vector<float>{1});
      ADD_FAILURE() << "assembly runs on the interpreter";
    } catch (const CompileError &error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("extern_test.cpp:"),
                                      HasSubstr("means nothing to the interpreter"),
                                      HasSubstr("by a function before the operands")));
    }
    return;
  }
  const bool isAmd = GetParam().find("gfx") != std::string::npos;
  const auto refused = AllOf(HasSubstr("the virtual GPU does not read assembly"),
                             HasSubstr("by a function before the operands"));
  if (isAmd)
    EXPECT_CALL_FAULT(inline_asm<float>("v_add_f32 $0, $1, $1", "=v,v", x), refused);
  else
    EXPECT_CALL_FAULT(inline_asm<float>("add.f32 $0, $1, $1;", "=f,f", x), refused);
}

// Meanings are what runs everywhere but on the chips that the texts are for.
TEST_P(Extern, AssemblyWithAMeaning) {
  Device device = Device::open(GetParam());
  const std::vector<std::uint32_t> x = {0, 1, 0xffffffff, 0x10203040};
  const auto ones = apply<std::uint32_t>(
      device,
      [](auto a) {
        return inline_asm<std::uint32_t>(
            "popc.b32 $0, $1;", "=r,r",
            [](Scalar<std::uint32_t> word) {
              Scalar<std::uint32_t> bits = 0;
              loop_while([&] { return word != 0; },
                         [&] {
                           bits += word & 1;
                           word = word >> 1;
                         });
              return bits;
            },
            a);
      },
      x);
  EXPECT_EQ(ones, (std::vector<std::uint32_t>{0, 1, 32, 5}));

  // Several at once, several results, operands that broadcast, a number of the kernel's.
  std::vector<half> a, b;
  for (int i = 0; i < 300; ++i) {
    a.emplace_back(static_cast<float>(i % 17));
    b.emplace_back(static_cast<float>(i % 5) - 2);
  }
  const auto pairs = apply<half>(
      device,
      [](auto u, auto v) {
        auto [sum, product] = inline_asm<half, half>(
            "add.f16x2 $0, $2, $3; mul.f16x2 $1, $2, $3;", "=&r,=r,r,r", {.pack = 2},
            [](Scalar<half> p, Scalar<half> q) { return std::tuple(p + q, p * q); }, u, v);
        auto three = cast<half>(num_programs(0)) * half(1.5f);
        auto scaled = inline_asm<half>(
            "mul.f16x2 $0, $1, $2;", "=r,r,r", {.pack = 2},
            [](Scalar<half> p, Scalar<half> q) { return p * q; }, u, three);
        return std::array{sum, product, scaled};
      },
      a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const float p = static_cast<float>(a[i]), q = static_cast<float>(b[i]);
    EXPECT_EQ(static_cast<float>(pairs[i]), p + q);
    EXPECT_EQ(static_cast<float>(pairs[a.size() + i]), p * q);
    EXPECT_EQ(static_cast<float>(pairs[2 * a.size() + i]), p * 3);
  }

  // Of one number, and of none.
  const auto numbers = apply<std::int32_t>(
      device,
      [](auto u) {
        auto product = inline_asm<std::int32_t>(
            "mul.lo.s32 $0, $1, $1;", "=r,r", [](Scalar<std::int32_t> n) { return n * n; },
            cast<std::int32_t>(program_id(0)) + 7);
        auto five = inline_asm<std::int32_t>("mov.s32 $0, 5;", "=r",
                                             [] { return Scalar<std::int32_t>(5); });
        return u + product + five;
      },
      std::vector<std::int32_t>{1, -1});
  EXPECT_EQ(numbers, (std::vector<std::int32_t>{55, 53}));
}

// A kernel of one float tile in, one out, as the text of a form.
template <class F> std::string emitted(const char *target, const char *form, F function) {
  Kernel kernel{"assembly", [=](Ptr<const float> in, Ptr<float> out) {
                  auto i = arange(0, 256);
                  store(out + i, cast<float>(function(load(in + i))));
                }};
  return kernel.emit(target, form, static_cast<const float *>(nullptr),
                     static_cast<float *>(nullptr));
}

TEST(Assembly, ReachesTheChipsCode) {
  const std::string ptx = emitted("sm_80", "ptx", [](auto x) {
    return inline_asm<float>("lg2.approx.f32 $0, $1;", "=f,f", x);
  });
  EXPECT_THAT(ptx, testing::ContainsRegex("lg2.approx.f32 %r[0-9]+, %r[0-9]+;"));
  // Two halves share a register; results first.
  const std::string pairs = emitted("sm_90a", "ptx", [](auto x) {
    auto [sum, product] =
        inline_asm<half, half>("add.f16x2 $0, $2, $3; mul.f16x2 $1, $2, $3;", "=&r,=r,r,r",
                               {.pack = 2}, cast<half>(x), cast<half>(x + 1));
    return sum + product;
  });
  EXPECT_THAT(pairs, testing::ContainsRegex(
                         "add.f16x2 %r[0-9]+, %r[0-9]+, %r[0-9]+; mul.f16x2 %r[0-9]+, %r"));
  const std::string wide = emitted("sm_80", "ptx", [](auto x) {
    return inline_asm<std::int64_t>("mad.wide.s32 $0, $1, $1, $2;", "=l,r,l", cast<std::int32_t>(x),
                                    cast<std::int64_t>(x));
  });
  EXPECT_THAT(wide, HasSubstr("mad.wide.s32"));
  const std::string amd = emitted("gfx942", "amdgcn", [](auto x) {
    return inline_asm<float>("v_mul_f32 $0, $1, $1", "=v,v", x);
  });
  EXPECT_THAT(amd, testing::ContainsRegex("v_mul_f32 v[0-9]+, v[0-9]+, v[0-9]+"));
  // Without effects it is left out where nobody wants the result; with effects it stays.
  for (bool pure : {true, false}) {
    const std::string text = emitted("sm_80", "ptx", [=](auto x) {
      inline_asm<float>("ex2.approx.f32 $0, $1;", "=f,f", {.pure = pure}, x);
      return x;
    });
    EXPECT_EQ(text.find("ex2.approx.f32") == std::string::npos, pure);
  }
}

template <class F> std::string emitFault(const char *target, const char *form, F function) {
  try {
    emitted(target, form, function);
  } catch (const CompileError &error) {
    return error.what();
  }
  ADD_FAILURE() << "the kernel compiles, but must not";
  return "";
}

TEST(Assembly, OfAnotherVendor) {
  auto ptx = [](auto x) { return inline_asm<float>("lg2.approx.f32 $0, $1;", "=f,f", x); };
  auto amd = [](auto x) { return inline_asm<float>("v_log_f32 $0, $1", "=v,v", x); };
  EXPECT_THAT(emitFault("gfx942", "amdgcn", ptx),
              AllOf(HasSubstr("extern_test.cpp:"),
                    HasSubstr("name registers of NVIDIA's chips, and gfx942 is one of AMD's")));
  EXPECT_THAT(emitFault("sm_80", "ptx", amd),
              HasSubstr("name registers of AMD's chips, and sm_80 is one of NVIDIA's"));
}

TEST(Assembly, WithAMeaning) {
  auto logarithm = [](auto x) {
    return inline_asm<float>("lg2.approx.f32 $0, $1;", "=f,f", [](Float y) { return log2(y); }, x);
  };
  EXPECT_THAT(
      emitted("sm_80", "ptx", logarithm),
      AllOf(HasSubstr("lg2.approx.f32 %r"), Not(HasSubstr("fma")), Not(HasSubstr("mul.f32"))));
  EXPECT_THAT(emitted("gfx942", "amdgcn", logarithm),
              AllOf(Not(HasSubstr("lg2.approx")), HasSubstr("v_fma_f32")));
  // The other vendor's chips run the meaning, which may be assembly again.
  auto square = [](auto x) {
    return inline_asm<float>(
        "mul.rn.ftz.f32 $0, $1, $1;", "=f,f",
        [](Float y) {
          return inline_asm<float>(
              "v_mul_legacy_f32 $0, $1, $1", "=v,v", [](Float z) { return z * z; }, y);
        },
        x);
  };
  EXPECT_THAT(emitted("gfx942", "amdgcn", square),
              AllOf(HasSubstr("v_mul_legacy_f32"), Not(HasSubstr("mul.rn.ftz"))));
  EXPECT_THAT(emitted("sm_90a", "ptx", square),
              AllOf(HasSubstr("mul.rn.ftz.f32 %r"), Not(HasSubstr("v_mul_legacy"))));
}

TEST(Assembly, ThatTheAssemblerRefuses) {
  EXPECT_THAT(
      emitFault("gfx942", "hsaco",
                [](auto x) { return inline_asm<float>("v_no_such_thing $0, $1", "=v,v", x); }),
      AllOf(HasSubstr("extern_test.cpp:"),
            HasSubstr("sc::inline_asm: the assembler says 'invalid instruction")));
}

} // namespace
