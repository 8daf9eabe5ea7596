// The commands of `sectile`, one file each.
#pragma once
#include "tools/sectile/CommandLine.h"

namespace sectile::tool {

int runDemo(const CommandLine &line);
int runInfo(const CommandLine &line);
int runList(const CommandLine &line);
int runRun(const CommandLine &line);
int runCompile(const CommandLine &line);
int runTune(const CommandLine &line);
int runBench(const CommandLine &line);
int runBuild(const CommandLine &line);
int runBundleList(const CommandLine &line);
int runBundleShow(const CommandLine &line);
int runBundleVerify(const CommandLine &line);
int runBundleMerge(const CommandLine &line);
int runBundleStrip(const CommandLine &line);
int runHelp(const CommandLine &line);
int runCompletion(const CommandLine &line);
int runMan(const CommandLine &line);

const std::vector<Command> &commands();

} // namespace sectile::tool
