// Line tables from MLIR locations.
#include "codegen/common/DebugInfo.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace sectile {

FileLineColLoc lineOf(Location location) {
  if (auto line = dyn_cast<FileLineColLoc>(location))
    return line;
  if (auto name = dyn_cast<NameLoc>(location))
    return lineOf(name.getChildLoc());
  if (auto call = dyn_cast<CallSiteLoc>(location)) {
    FileLineColLoc callee = lineOf(call.getCallee());
    return callee ? callee : lineOf(call.getCaller());
  }
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      if (FileLineColLoc line = lineOf(part))
        return line;
  return {};
}

llvm::DIFile *KernelDebugInfo::file(llvm::StringRef path) {
  return builder.createFile(llvm::sys::path::filename(path), llvm::sys::path::parent_path(path));
}

void KernelDebugInfo::begin(llvm::Function &kernel, Location location,
                            llvm::DICompileUnit::DebugEmissionKind kind) {
  FileLineColLoc line = lineOf(location);
  if (!line)
    return;
  llvm::Module &module = *kernel.getParent();
  llvm::DIFile *where = file(line.getFilename());
  llvm::DICompileUnit *unit = builder.createCompileUnit(
      llvm::DISourceLanguageName(llvm::dwarf::DW_LANG_C_plus_plus), where, "Sectile",
      /*isOptimized=*/true, "", 0, "", kind);
  llvm::DISubroutineType *type = builder.createSubroutineType(builder.getOrCreateTypeArray({}));
  subprogram = builder.createFunction(unit, kernel.getName(), kernel.getName(), where,
                                      line.getLine(), type, line.getLine(), llvm::DINode::FlagZero,
                                      llvm::DISubprogram::SPFlagDefinition |
                                          llvm::DISubprogram::SPFlagOptimized);
  kernel.setSubprogram(subprogram);
  scopes[line.getFilename()] = subprogram;
  if (!module.getModuleFlag("Debug Info Version"))
    module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
}

llvm::DebugLoc KernelDebugInfo::at(Location location) {
  if (!subprogram)
    return {};
  auto [known, isNew] = locations.try_emplace(location);
  if (!isNew)
    return known->second;
  llvm::DIScope *scope = subprogram;
  unsigned number = 0, column = 0;
  if (FileLineColLoc line = lineOf(location)) {
    number = line.getLine();
    column = line.getColumn();
    llvm::DIScope *&ofFile = scopes[line.getFilename()];
    if (!ofFile)
      ofFile = builder.createLexicalBlockFile(subprogram, file(line.getFilename()));
    scope = ofFile;
  }
  known->second = llvm::DILocation::get(subprogram->getContext(), number, column, scope);
  return known->second;
}

void KernelDebugInfo::finish() { builder.finalize(); }

} // namespace sectile
