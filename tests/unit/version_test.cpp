// The version macros and the library's own word for them agree.
#include <gtest/gtest.h>
#include <sectile/version.h>
#include <string>

TEST(Version, HeaderAndLibraryAgree) {
  EXPECT_STREQ(sectile::version(), SECTILE_VERSION_STRING);
  EXPECT_EQ(std::string(SECTILE_VERSION_STRING), std::to_string(SECTILE_VERSION_MAJOR) + "." +
                                                     std::to_string(SECTILE_VERSION_MINOR) + "." +
                                                     std::to_string(SECTILE_VERSION_PATCH));
}

TEST(Version, LlvmIsTheOneWeAreWrittenFor) {
  EXPECT_EQ(std::string(sectile::llvm_version()).substr(0, 3), "22.");
}
