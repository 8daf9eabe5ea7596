// `sectile cache show`: everything in a kernel's entry.
#include "runtime/Symbol.h"
#include "tools/sectile/Execute.h"
#include "tools/sectile/Table.h"
#include "tools/sectile/cache/Cache.h"
#include <iostream>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::tool;

int sectile::tool::runCacheShow(const CommandLine &line) {
  if (line.has("--ir") + line.has("--code") + line.has("--json") > 1)
    throw InputError("only one of --ir, --code and --json can be given");
  const runtime::CachedKernel kernel = findEntry(*line.argument(0));
  const Artifact &artifact = kernel.artifact;
  if (line.has("--ir")) {
    std::cout << kernel.key.ir;
    return 0;
  }
  const std::string code = runtime::codeText(artifact);
  if (line.has("--code")) {
    std::cout << code;
    return 0;
  }
  // Code that runs on the host is found by another name, and has no registers of a device.
  const bool isHosted = artifact.kind == "virtual" || artifact.kind == "interpreter";
  if (line.has("--json")) {
    llvm::json::Object object{{"entry", kernel.name},
                              {"kernel", kernel.key.kernel},
                              {"target", kernel.key.target},
                              {"options", kernel.key.options},
                              {"compiler", kernel.key.compiler},
                              {"key", kernel.key.text()},
                              {"ir", kernel.key.ir},
                              {"ir_with_locations", kernel.source},
                              {"ir_hash", artifact.irHash},
                              {"form", artifact.kind},
                              {"chip", artifact.target},
                              {"code", llvm::json::fixUTF8(code)},
                              {"code_bytes", artifact.bytes.size()},
                              {"threads", artifact.plan.threads},
                              {"cluster", artifact.plan.cluster},
                              {"registers", artifact.resources.registers},
                              {"spill_bytes", artifact.resources.spillBytes},
                              {"static_shared_bytes", artifact.resources.staticSharedBytes},
                              {"shared_bytes", artifact.plan.sharedBytes},
                              {"compile_ms", artifact.compileMilliseconds}};
    if (!isHosted)
      object["symbol"] = symbolOf(artifact.entry);
    printJson(std::move(object));
    return 0;
  }
  auto count = [&](unsigned number, const char *of) {
    return number     ? std::to_string(number) + of
           : isHosted ? std::string("none on the host")
                      : std::string("not known before it is loaded");
  };
  const bool resourcesKnown = artifact.resources.registers != 0;
  Table table;
  table.row({"entry", kernel.name});
  table.row({"kernel", kernel.key.kernel});
  table.row({"target", kernel.key.target});
  table.row({"options", kernel.key.options});
  table.row({"compiler", kernel.key.compiler});
  table.row({"IR hash", artifact.irHash});
  table.row({"code", artifact.kind + " for " + artifact.target +
                         (isHosted ? "" : ", symbol " + symbolOf(artifact.entry)) + ", " +
                         std::to_string(artifact.bytes.size()) + " bytes"});
  table.row({"compiled in", milliseconds(artifact.compileMilliseconds)});
  table.row({"threads", std::to_string(artifact.plan.threads) + " of one block"});
  if (artifact.plan.cluster > 1)
    table.row({"cluster", std::to_string(artifact.plan.cluster) + " blocks"});
  table.row({"registers", count(artifact.resources.registers, " of one thread")});
  table.row({"spilled", resourcesKnown
                            ? std::to_string(artifact.resources.spillBytes) + " bytes of one thread"
                            : count(0, "")});
  table.row({"shared", std::to_string(artifact.plan.sharedBytes) + " bytes of one block, and " +
                           std::to_string(artifact.resources.staticSharedBytes) + " static"});
  table.print(std::cout);
  std::cout << "\nIR:\n" << kernel.key.ir << "\n" << artifact.kind << ":\n" << code;
  return 0;
}
