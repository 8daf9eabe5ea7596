// Where the compiler is kept, if there is one.
#include "runtime/CompilerLink.h"
#include <utility>

namespace sectile::runtime {

// Outlives kernels that static objects launch.
static CompilerLink *theCompiler = nullptr;

CompilerLink *compiler() { return theCompiler; }
void setCompiler(std::unique_ptr<CompilerLink> link) { theCompiler = link.release(); }

} // namespace sectile::runtime
