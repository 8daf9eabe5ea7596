# check_tree.py itself: each rule must be able to fail.
from check_tree import check

good = {
    "ir/Target.h": "// a\n",
    "dsl/include/sectile/tile.h": '// a\n#include "llvmish/x.h"\n',
    "kernels/k.cpp": '// a\n#include "ir/Target.h"\n#include <sectile/tile.h>\n#include <vector>\n',
    "passes/Kernel.h": '// a\n#include "passes/Passes.h.inc"\n',
    "passes/loops/L.cpp": '// a\n#include "passes/Kernel.h"\n#include "passes/analysis/A.h"\n',
    "tools/t.cpp": '// a\n#include "kernels/k.h"\n',
}
assert check(good) == [], check(good)


def complains(path, text, reason):
    found = check({**good, path: text})
    assert len(found) == 1 and reason in found[0], found


complains("ir/bad.cpp", '// a\n#include "codegen/x.h"\n', "ir/ may not include codegen/")
complains("ir/bad.cpp", "// a\n#include <sectile/tile.h>\n", "ir/ may not include dsl/")
complains("runtime/bad.cpp", '// a\n#include "llvm/ADT/StringRef.h"\n', "in a folder that goes without LLVM")
complains("runtime/bad.cpp", '// a\n#include "jit/x.h"\n', "runtime/ may not include jit/")
complains("runtime/bad.cpp", '// a\n#include "tools/x.h"\n', "runtime/ may not include tools/")
complains("passes/analysis/bad.h", '// a\n#include "passes/loops/L.h"\n', "comes later in passes/")
complains("passes/bad.h", '// a\n#include "passes/analysis/A.h"\n', "comes later in passes/")
complains("passes/nowhere/bad.h", "// a\n", "no such room")
complains("dsl/include/sectile/bad.h", '// a\n#include "mlir/IR/x.h"\n', "a public header")
complains("dsl/include/sectile/bad.h", "// a\n#include <cuda.h>\n", "a public header")
complains("ir/bad.cpp", "int x;\n", "does not start with a comment")
complains("jit/bad.cpp", "// a\nauto x = std::stod(text);\n", "runtime::numberIn")
complains("ir/bad.cpp", "// a\n" * 901, "more than 900")
