// Why a kernel could not be compiled.
#include "codegen/KernelError.h"
#include "llvm/Support/raw_ostream.h"

char sectile::KernelError::ID;

void sectile::KernelError::log(llvm::raw_ostream &out) const {
  if (!file.empty())
    out << file << ':' << line << ": ";
  out << message;
}
