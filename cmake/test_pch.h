// The headers of GoogleTest, precompiled with those of MLIR and LLVM for tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
