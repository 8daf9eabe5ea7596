// The compile cache must tell builds of one version apart.
#include "codegen/Compiler.h"
#include "runtime/BuildId.h"
#include <gmock/gmock.h>
#include <unistd.h>

TEST(BuildId, IsTheLinkersHashOfTheLibrary) {
  EXPECT_THAT(sectile::libraryBuildId(), testing::MatchesRegex("[0-9a-f]{40}"));
  EXPECT_THAT(sectile::compilerVersion(), testing::HasSubstr(sectile::libraryBuildId()));
  EXPECT_THAT(sectile::compilerVersion(), testing::HasSubstr(sectile::runtimeBuildId()));
}

TEST(BuildId, OfAnotherLibraryIsItsOwn) {
  const std::string ofC = sectile::buildOf(reinterpret_cast<const void *>(&::getpid));
  EXPECT_THAT(ofC, testing::MatchesRegex("[0-9a-f]{40}"));
  EXPECT_NE(ofC, sectile::libraryBuildId());
  const int onTheStack = 0;
  EXPECT_EQ(sectile::buildOf(&onTheStack), "unknown");
}
