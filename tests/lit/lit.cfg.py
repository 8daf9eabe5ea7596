# Which files are lit tests, and which programs they can call by name.
import os

import lit.formats

config.name = "sectile"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".ll"]
config.substitutions.append(("%{llvm}", config.llvm_version))
config.test_source_root = os.path.dirname(__file__)
config.environment["PATH"] = os.pathsep.join(
    [config.sectile_bin, config.llvm_bin, os.environ.get("PATH", "")]
)
# Sanitizer builds run through lit as well.
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "HOME"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
