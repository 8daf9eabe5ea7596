// Links what was compiled for the virtual GPU into this process, with JITLink.
#include "codegen/virtual/HostCompiler.h"
#include "vgpu/Program.h"
#include "vgpu/Symbols.h"
#include "llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h"
#include <mutex>
#include <stdexcept>

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
      auto memory = jitlink::InProcessMemoryManager::Create();
      if (!memory)
        return memory.takeError();
      auto created = std::make_unique<Linker>(std::move(*control), std::move(*memory));
      if (Error error = created->addMachine())
        return error;
      instance = created.release();
    }
    return instance;
  }

  Linker(std::unique_ptr<ExecutorProcessControl> control,
         std::unique_ptr<jitlink::JITLinkMemoryManager> memory)
      : session(std::move(control)), layer(session, std::move(memory)),
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

// Whatever the error, callers have no LLVM.
template <class T> T required(Expected<T> value) {
  if (!value)
    throw std::runtime_error(toString(value.takeError()));
  return *value;
}

const std::string &ownObject(const VirtualObject &object) {
  static const std::string own = hostCpuName();
  if (object.hostCpu != own)
    throw std::runtime_error("it was compiled for " + object.hostCpu + ", and this machine is " +
                             own);
  return object.object;
}

class LinkedCode : public LoadedCode {
public:
  explicit LinkedCode(const VirtualObject &object)
      : linker(required(Linker::get())),
        library(required(linker->add(ownObject(object), object.kernel))) {}
  ~LinkedCode() override { linker->remove(*library); }
  void *find(const std::string &symbol) override {
    return required(linker->find(*library, symbol)).getAddress().toPtr<void *>();
  }

private:
  Linker *const linker;
  JITDylib *const library;
};

[[maybe_unused]] const bool isSet = (setObjectLinker([](const VirtualObject &object) {
                                       return std::unique_ptr<LoadedCode>(new LinkedCode(object));
                                     }),
                                     true);

} // namespace
} // namespace sectile::vgpu
