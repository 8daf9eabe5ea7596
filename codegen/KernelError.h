// Why a kernel could not be compiled, with the user's line where there is one to blame.
#ifndef SECTILE_CODEGEN_KERNELERROR_H
#define SECTILE_CODEGEN_KERNELERROR_H

#include "llvm/Support/Error.h"
#include <string>

namespace sectile {

class KernelError : public llvm::ErrorInfo<KernelError> {
public:
  static char ID;

  /// Whose fault it is: what the kernel says, what it asks of the chip, or ours.
  enum class Kind { Kernel, Resources, Internal };

  KernelError(Kind kind, std::string file, unsigned line, std::string message)
      : kind(kind), file(std::move(file)), line(line), message(std::move(message)) {}

  void log(llvm::raw_ostream &out) const override;
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

  const Kind kind;
  const std::string file; ///< empty where no line is to blame
  const unsigned line;
  const std::string message;
};

} // namespace sectile

#endif
