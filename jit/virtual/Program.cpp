// Links virtual objects with JITLink.
#include "jit/virtual/Program.h"
#include "jit/virtual/Symbols.h"
#include "llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h"
#include <algorithm>
#include <mutex>

using namespace llvm;
using namespace llvm::orc;

namespace sectile::vgpu {
namespace {

// One linker for the process; each program is a library of its own in it, so that it can be
// unloaded.
class Linker {
public:
  static Expected<Linker *> get() {
    // Never destroyed: programs may be unloaded by destructors that run late at exit.
    static Linker *instance = nullptr;
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    if (!instance) {
      auto control = SelfExecutorProcessControl::Create();
      if (!control)
        return control.takeError();
      auto created = std::make_unique<Linker>(std::move(*control));
      if (Error error = created->addMachine())
        return error;
      instance = created.release();
    }
    return instance;
  }

  explicit Linker(std::unique_ptr<ExecutorProcessControl> control)
      : session(std::move(control)),
        layer(session, session.getExecutorProcessControl().getMemMgr()),
        machine(session.createBareJITDylib("machine")) {}

  Expected<JITDylib *> add(StringRef object, StringRef name) {
    JITDylib &library = session.createBareJITDylib((name + "." + Twine(next++)).str());
    library.addToLinkOrder(machine);
    if (Error error = layer.add(library, MemoryBuffer::getMemBufferCopy(object, name)))
      return error;
    return &library;
  }
  Expected<ExecutorSymbolDef> find(JITDylib &library, StringRef name) {
    return session.lookup(makeJITDylibSearchOrder(&library, JITDylibLookupFlags::MatchAllSymbols),
                          session.intern(name));
  }
  void remove(JITDylib &library) { consumeError(session.removeJITDylib(library)); }

private:
  Error addMachine() {
    SymbolMap symbols;
    for (SymbolTable table : {machineSymbols(), hostSymbols()})
      for (const Symbol &symbol : ArrayRef(table.begin, table.count))
        symbols[session.intern(symbol.name)] = {ExecutorAddr::fromPtr(symbol.address),
                                                JITSymbolFlags::Exported |
                                                    JITSymbolFlags::Callable};
    if (Error error = machine.define(absoluteSymbols(std::move(symbols))))
      return error;
    // The C library's mathematics.
    auto process = DynamicLibrarySearchGenerator::GetForCurrentProcess('\0');
    if (!process)
      return process.takeError();
    machine.addGenerator(std::move(*process));
    return Error::success();
  }

  ExecutionSession session;
  ObjectLinkingLayer layer;
  JITDylib &machine;
  std::atomic<unsigned> next = 0;
};

} // namespace

struct Program::Linked {
  Linker *linker;
  JITDylib *library;
  ~Linked() { linker->remove(*library); }
};

Program::~Program() = default;

Expected<std::unique_ptr<Program>> Program::load(VirtualObject object) {
  Expected<Linker *> linker = Linker::get();
  if (!linker)
    return linker.takeError();
  Expected<JITDylib *> library = (*linker)->add(object.object, object.kernel);
  if (!library)
    return library.takeError();
  std::unique_ptr<Program> program(new Program);
  program->linked.reset(new Linked{*linker, *library});
  Expected<ExecutorSymbolDef> entry = (*linker)->find(**library, object.entry);
  if (!entry)
    return entry.takeError();
  program->entryPoint = entry->getAddress().toPtr<Entry>();
  Expected<ExecutorSymbolDef> globals = (*linker)->find(**library, "sectile_globals");
  if (!globals)
    return globals.takeError();
  for (const auto *pair = globals->getAddress().toPtr<const uint64_t *>(); pair[0]; pair += 2)
    program->globalRanges.push_back({pair[0], pair[0] + pair[1]});
  object.object.clear();
  program->object = std::move(object);
  return program;
}

} // namespace sectile::vgpu
