// Disassembles ELF objects with LLVM's tables.
#include "codegen/Disassembly.h"
#include "ir/Target.h"
#include "vgpu/VirtualObject.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCInst.h"
#include "llvm/MC/MCInstPrinter.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/MCTargetOptions.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include <map>
#include <mutex>

using namespace llvm;

namespace {

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeNativeTarget();
    InitializeNativeTargetDisassembler();
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUDisassembler();
  });
}

/// The tables that one kind of machine code is read with.
class Reader {
public:
  Reader(const Triple &triple, StringRef cpu, StringRef features) {
    std::string why;
    const Target *target = TargetRegistry::lookupTarget(triple, why);
    if (!target)
      return;
    registers.reset(target->createMCRegInfo(triple));
    assembly.reset(target->createMCAsmInfo(*registers, triple, options));
    subtarget.reset(target->createMCSubtargetInfo(triple, cpu, features));
    instructions.reset(target->createMCInstrInfo());
#if LLVM_VERSION_MAJOR == 22
    context.emplace(triple, assembly.get(), registers.get(), subtarget.get());
#else
    context.emplace(triple, *assembly, *registers, *subtarget);
#endif
    disassembler.reset(target->createMCDisassembler(*subtarget, *context));
    printer.reset(target->createMCInstPrinter(triple, assembly->getAssemblerDialect(), *assembly,
                                              *instructions, *registers));
  }
  bool ready() const { return disassembler && printer; }

  void print(ArrayRef<uint8_t> code, uint64_t address,
             const std::multimap<uint64_t, std::string> &labels, raw_ostream &out) {
    for (uint64_t at = 0; at < code.size();) {
      auto [label, last] = labels.equal_range(address + at);
      for (; label != last; ++label)
        out << label->second << ":\n";
      MCInst instruction;
      uint64_t size = 0;
      if (disassembler->getInstruction(instruction, size, code.slice(at), address + at, nulls()) ==
          MCDisassembler::Fail) {
        size = std::max<uint64_t>(size, 1);
        out << "\t.byte " << format_hex(code[at], 4) << "\n";
        at += 1;
        continue;
      }
      printer->printInst(&instruction, address + at, "", *subtarget, out);
      out << "\n";
      at += size;
    }
  }

private:
  MCTargetOptions options;
  std::unique_ptr<MCRegisterInfo> registers;
  std::unique_ptr<MCAsmInfo> assembly;
  std::unique_ptr<MCSubtargetInfo> subtarget;
  std::unique_ptr<MCInstrInfo> instructions;
  std::optional<MCContext> context;
  std::unique_ptr<MCDisassembler> disassembler;
  std::unique_ptr<MCInstPrinter> printer;
};

Error printObject(StringRef bytes, StringRef cpu, StringRef features, raw_ostream &out) {
  auto file = object::ObjectFile::createObjectFile(MemoryBufferRef(bytes, "kernel"));
  if (!file)
    return file.takeError();
  Reader reader((*file)->makeTriple(), cpu, features);
  if (!reader.ready())
    return createStringError("LLVM cannot read this processor's code");
  for (const object::SectionRef &section : (*file)->sections()) {
    if (!section.isText() || section.getSize() == 0)
      continue;
    std::multimap<uint64_t, std::string> labels;
    for (const object::SymbolRef &symbol : (*file)->symbols()) {
      auto where = symbol.getSection();
      auto address = symbol.getAddress();
      auto name = symbol.getName();
      auto type = symbol.getType();
      if (where && address && name && type && *where == section && !name->empty() &&
          *type == object::SymbolRef::ST_Function)
        labels.emplace(*address, name->str());
      consumeError(joinErrors(joinErrors(where.takeError(), address.takeError()),
                              joinErrors(name.takeError(), type.takeError())));
    }
    auto contents = section.getContents();
    if (!contents)
      return contents.takeError();
    reader.print(arrayRefFromStringRef(*contents), section.getAddress(), labels, out);
  }
  return Error::success();
}

} // namespace

std::string sectile::disassemble(const Artifact &artifact) {
  initialize();
  std::string text;
  raw_string_ostream out(text);
  Error error = Error::success();
  if (artifact.kind == "virtual") {
    auto object = vgpu::VirtualObject::deserialize(artifact.bytes);
    error = object ? printObject(object->object, sys::getHostCPUName(), "", out)
                   : createStringError("it is no object of the virtual GPU");
  } else if (auto target = Target::get(artifact.target); !target) {
    error = target.takeError();
  } else {
    error = printObject(artifact.bytes, target->cpu, target->features, out);
  }
  if (error)
    return "(no disassembly: " + llvm::toString(std::move(error)) + ")\n";
  return text;
}
