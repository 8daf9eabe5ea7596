// The commands of `sectile`, one file each.
#pragma once
#include "tools/sectile/CommandLine.h"

namespace sectile::tool {

int runInfo(const CommandLine &line);
int runList(const CommandLine &line);
int runHelp(const CommandLine &line);

const std::vector<Command> &commands();

} // namespace sectile::tool
