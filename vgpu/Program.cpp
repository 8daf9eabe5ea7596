// Loads virtual objects: those of bundles are shared objects, those that were compiled here go to
// the compiler's linker.
#include "vgpu/Program.h"
#include <stdexcept>

namespace sectile::vgpu {

static ObjectLinker theLinker = nullptr;

void setObjectLinker(ObjectLinker linker) { theLinker = linker; }

Program::~Program() = default;

std::unique_ptr<Program> Program::load(VirtualObject object) {
  std::unique_ptr<Program> program(new Program);
  if (object.isShared())
    program->code = openSharedObject(object);
  else if (theLinker)
    program->code = theLinker(object);
  else
    throw std::runtime_error("it has to be linked first, by a program that compiles");
  void *const entry = program->code->find(object.entry);
  const auto *globals =
      static_cast<const uint64_t *>(program->code->find(std::string(globalsSymbol)));
  if (!entry || !globals)
    throw std::runtime_error("it has no entry, or no list of its variables");
  program->entryPoint = reinterpret_cast<Entry>(entry);
  for (const uint64_t *pair = globals; pair[0]; pair += 2)
    program->globalRanges.push_back({pair[0], pair[0] + pair[1]});
  object.object.clear();
  program->object = std::move(object);
  return program;
}

} // namespace sectile::vgpu
