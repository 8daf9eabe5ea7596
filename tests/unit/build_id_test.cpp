// The compile cache must tell builds of one version apart.
#include "codegen/BuildId.h"
#include "codegen/Compiler.h"
#include <gmock/gmock.h>

TEST(BuildId, IsTheLinkersHashOfTheLibrary) {
  EXPECT_THAT(sectile::libraryBuildId(), testing::MatchesRegex("[0-9a-f]{40}"));
  EXPECT_THAT(sectile::compilerVersion(), testing::HasSubstr(sectile::libraryBuildId()));
}
