# check_tree.py itself: each rule must be able to fail.
from check_tree import check

good = {
    "ir/Target.h": "// a\n",
    "dsl/include/sectile/tile.h": '// a\n#include "llvmish/x.h"\n',
    "kernels/k.cpp": '// a\n#include "ir/Target.h"\n#include <sectile/tile.h>\n#include <vector>\n',
    "tools/t.cpp": '// a\n#include "kernels/k.h"\n',
}
assert check(good) == [], check(good)


def complains(path, text, reason):
    found = check({**good, path: text})
    assert len(found) == 1 and reason in found[0], found


complains("ir/bad.cpp", '// a\n#include "codegen/x.h"\n', "ir/ may not include codegen/")
complains("ir/bad.cpp", "// a\n#include <sectile/tile.h>\n", "ir/ may not include dsl/")
complains("runtime/bad.cpp", '// a\n#include "tools/x.h"\n', "runtime/ may not include tools/")
complains("dsl/include/sectile/bad.h", '// a\n#include "mlir/IR/x.h"\n', "a public header")
complains("dsl/include/sectile/bad.h", "// a\n#include <cuda.h>\n", "a public header")
complains("ir/bad.cpp", "int x;\n", "does not start with a comment")
complains("ir/bad.cpp", "// a\n" * 901, "more than 900")
