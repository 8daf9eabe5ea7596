// What the tests of the language share: tracing a lambda, and reading the fault of one.
#pragma once
#include "dsl/Trace.h"
#include "mlir/IR/MLIRContext.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sectile/language.h>

inline mlir::MLIRContext &testContext() {
  static mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  return context;
}

template <class F>
mlir::OwningOpRef<mlir::ModuleOp>
traceModule(const F &function, const void *config,
            std::vector<sectile::detail::ArgSpecialization> specializations) {
  using Signature = sectile::detail::Signature<F>;
  specializations.resize(Signature::first.back());
  return sectile::detail::trace(Signature::describe("kernel", function), specializations, config,
                                &testContext());
}

inline std::string textOf(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

// The IR of a kernel.
template <class F>
std::string traced(const F &function,
                   std::vector<sectile::detail::ArgSpecialization> specializations = {}) {
  return textOf(*traceModule(function, nullptr, std::move(specializations)));
}
template <class F, class Config>
  requires std::is_class_v<Config>
std::string traced(const F &function, const Config &config,
                   std::vector<sectile::detail::ArgSpecialization> specializations = {}) {
  return textOf(*traceModule(function, &config, std::move(specializations)));
}

// The message of the CompileError that tracing ends with, without the path of the file.
template <class F> std::string fault(const F &function, unsigned line) {
  try {
    traceModule(function, nullptr, {});
  } catch (const sectile::CompileError &error) {
    EXPECT_EQ(error.line(), line) << error.what();
    EXPECT_THAT(error.file(), testing::HasSubstr("dsl_"));
    return error.what();
  }
  ADD_FAILURE() << "the kernel traces, but must not";
  return "";
}
