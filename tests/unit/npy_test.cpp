// .npy files: every dtype and layout there and back, and each way a file can be damaged.
#include "tools/File.h"
#include "tools/npy/Npy.h"
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sectile/error.h>
#include <unistd.h>

using namespace sectile;
using testing::AllOf;
using testing::HasSubstr;

namespace {

class Npy : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("npy_test" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string path(const std::string &name) const { return folder / name; }
  std::size_t filesThere() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  }

  std::filesystem::path folder;
};

std::string npy(const std::string &header, const std::string &data, char version = 1) {
  std::string text = "\x93NUMPY";
  text += {version, '\0', static_cast<char>(header.size() & 255),
           static_cast<char>(header.size() >> 8)};
  if (version > 1)
    text += std::string(2, '\0');
  return text + header + data;
}

std::string header(const std::string &descr, const std::string &shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }   \n";
}

template <class T> std::string bytes(std::initializer_list<T> values) {
  return {reinterpret_cast<const char *>(values.begin()), values.size() * sizeof(T)};
}

std::string messageOf(const std::string &contents) {
  try {
    parseNpy(contents, "some/x.npy");
  } catch (const InputError &error) {
    EXPECT_THAT(error.what(), HasSubstr("'some/x.npy'"));
    return error.what();
  }
  return "no error";
}

} // namespace

TEST_F(Npy, EveryDtypeAndShapeComesBack) {
  for (DType dtype : {DType::boolean, DType::int8, DType::int16, DType::int32, DType::int64,
                      DType::uint8, DType::uint16, DType::uint32, DType::uint64, DType::float16,
                      DType::float32, DType::float64})
    for (const Shape &shape : std::vector<Shape>{{}, {5}, {2, 3}, {0}, {3, 0, 2}, {1, 2, 3, 1}}) {
      HostArray array(dtype, shape);
      std::vector<double> values;
      for (std::int64_t i = 0; i < array.count(); ++i)
        values.push_back(dtype == DType::boolean ? i % 2 : static_cast<double>(i * 3 % 100));
      array.assign(values);
      writeNpy(path("a.npy"), array);
      HostArray back = readNpy(path("a.npy"));
      EXPECT_EQ(back.dtype, dtype);
      EXPECT_EQ(back.shape, shape);
      EXPECT_EQ(back.data, array.data);
      EXPECT_EQ(back.to_double(), values);
      std::string text = readFile(path("a.npy"));
      EXPECT_EQ((text.size() - array.data.size()) % 64, 0u);
    }
  EXPECT_EQ(filesThere(), 1u);
}

TEST_F(Npy, SmallFloatsAreWrittenRawAndNamedAgain) {
  const std::vector<double> values{1, -2.5, 0.125};
  for (DType dtype : {DType::bfloat16, DType::float8_e4m3, DType::float8_e5m2,
                      DType::float8_e4m3fnuz, DType::float8_e5m2fnuz, DType::float8_e4m3b11fnuz}) {
    writeNpy(path("b.npy"), HostArray(dtype, {3}, values));
    HostArray back = readNpy(path("b.npy"));
    EXPECT_EQ(back.dtype, size_of(dtype) == 2 ? DType::uint16 : DType::uint8);
    reinterpret(back, dtype, "b.npy");
    EXPECT_EQ(back.to_double(), values);
  }
  HostArray floats(DType::float32, {1});
  EXPECT_THROW(reinterpret(floats, DType::bfloat16, "b.npy"), InputError);
}

TEST(NpyParse, FortranOrderBecomesCOrder) {
  HostArray array =
      parseNpy(npy(header("<i2", "(2, 3)", true), bytes<short>({1, 4, 2, 5, 3, 6})), "x");
  EXPECT_EQ(array.shape, (Shape{2, 3}));
  EXPECT_EQ(array.to_double(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  std::string cube;
  for (char k = 0; k < 4; ++k)
    for (char j = 0; j < 3; ++j)
      for (char i = 0; i < 2; ++i)
        cube += static_cast<char>(i * 12 + j * 4 + k);
  array = parseNpy(npy(header("|i1", "(2, 3, 4)", true), cube), "x");
  for (std::size_t i = 0; i < 24; ++i)
    EXPECT_EQ(array.as<std::int8_t>()[i], static_cast<std::int8_t>(i));
}

TEST(NpyParse, BigEndianIsSwapped) {
  EXPECT_EQ(
      parseNpy(npy(header(">u2", "(2,)"), std::string("\x01\x02\x00\x03", 4)), "x").to_double(),
      (std::vector<double>{0x102, 3}));
  EXPECT_EQ(
      parseNpy(npy(header(">f4", "(1,)"), std::string("\x3f\x80\x00\x00", 4)), "x").to_double(),
      (std::vector<double>{1}));
}

TEST(NpyParse, AllVersionsAndSpellings) {
  for (char version : {1, 2, 3})
    EXPECT_EQ(parseNpy(npy(header("<f8", "()"), bytes<double>({2.5}), version), "x").to_double(),
              std::vector<double>{2.5});
  EXPECT_EQ(
      parseNpy(npy("{\"shape\":(1L,),\"descr\":\"<u1\",\"fortran_order\":False}", "\x07"), "x")
          .to_double(),
      std::vector<double>{7});
  EXPECT_EQ(parseNpy(npy(header("<V2", "(1,)"), bytes<short>({9})), "x").dtype, DType::uint16);
  EXPECT_EQ(parseNpy(npy(header("|b1", "(2,)"), std::string("\0\x05", 2)), "x").to_double(),
            (std::vector<double>{0, 1}));
  EXPECT_EQ(
      parseNpy(npy(header("<f4", "(0, 999999999999999999, 999999999999999999)"), ""), "x").count(),
      0);
}

TEST(NpyParse, DamageIsNamed) {
  const std::string good = npy(header("<f4", "(3,)"), std::string(12, '\0'));
  ASSERT_EQ(messageOf(good), "no error");
  EXPECT_THAT(messageOf(""), HasSubstr("not a .npy file"));
  EXPECT_THAT(messageOf("PK\x03\x04 something else"), HasSubstr("not a .npy file"));
  EXPECT_THAT(messageOf(good.substr(0, 7)), HasSubstr("cut off within its .npy header"));
  EXPECT_THAT(messageOf(good.substr(0, 30)), HasSubstr("cut off within its .npy header"));
  EXPECT_THAT(messageOf(good.substr(0, good.size() - 1)),
              AllOf(HasSubstr("cut off"), HasSubstr("[3] of f32"), HasSubstr("11 bytes")));
  EXPECT_THAT(messageOf(good + "x"), HasSubstr("1 bytes follow the data"));
  EXPECT_THAT(messageOf(npy(header("<f8", "()"), "1234")), HasSubstr("cut off"));
  EXPECT_THAT(messageOf(npy(header("<f4", "(3,)"), "", 9)), HasSubstr("format version 9"));
  EXPECT_THAT(messageOf(npy(header("|O", "(3,)"), "")), HasSubstr("Python objects"));
  EXPECT_THAT(messageOf(npy(header("<c8", "(3,)"), "")), HasSubstr("dtype '<c8'"));
  EXPECT_THAT(
      messageOf(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "")),
      HasSubstr("records"));
  std::string huge = "\x93NUMPY";
  huge += std::string("\x02\x00\xff\xff\xff\x7f", 6);
  EXPECT_THAT(messageOf(huge), HasSubstr("header of 2147483647 bytes"));
  EXPECT_THAT(messageOf(npy(header("<f4", "(99999999999999999999,)"), "")), HasSubstr("too large"));
  EXPECT_THAT(messageOf(npy(header("<f4", "(4611686018427387904, 4611686018427387904)"), "abcd")),
              HasSubstr("cut off"));
}

TEST(NpyParse, HeaderSyntaxIsChecked) {
  for (const char *text :
       {"", "{", "{}", "nonsense", "{'descr': '<f4'}", "{'descr' '<f4'}", "{'descr': <f4}",
        "{'descr': '<f4", "{'descr': '<f4', 'fortran_order': Perhaps, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x"})
    EXPECT_THAT(messageOf(npy(text, "abcd")), HasSubstr("damaged .npy header")) << text;
}

// Cut anywhere, a file is an error and nothing worse.
TEST(NpyParse, EveryPrefixIsAnError) {
  const std::string good = npy(header("<i4", "(2, 2)", true), std::string(16, '\1'), 2);
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_NE(messageOf(good.substr(0, length)), "no error") << length;
}

TEST_F(Npy, FilesThatCannotBeReadOrWritten) {
  auto message = [](auto &&action) -> std::string {
    try {
      action();
    } catch (const InputError &error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([&] { readNpy(path("none.npy")); }),
            "cannot read '" + path("none.npy") + "': No such file or directory");
  EXPECT_THAT(message([&] { readNpy(folder); }), HasSubstr("Is a directory"));
  EXPECT_THAT(message([&] { writeNpy(path("none/x.npy"), HostArray(DType::int8, {1})); }),
              HasSubstr("No such file or directory"));
  EXPECT_THAT(message([&] { writeNpy("/dev/full", HostArray(DType::int8, {1})); }),
              AllOf(HasSubstr("/dev/full"), HasSubstr("No space left")));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  EXPECT_EQ(filesThere(), 0u);
}

TEST_F(Npy, AnOldFileIsReplacedWholeAndLinksStay) {
  std::ofstream(path("real.npy")) << std::string(1000, 'x');
  std::filesystem::create_symlink(path("real.npy"), path("link.npy"));
  writeNpy(path("link.npy"), HostArray(DType::int8, {2}));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link.npy")));
  EXPECT_EQ(readNpy(path("real.npy")).shape, Shape{2});
  EXPECT_EQ(filesThere(), 2u);
}
