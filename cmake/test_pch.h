// The headers of GoogleTest, precompiled for tests with those of MLIR, LLVM and the standard
// library.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
