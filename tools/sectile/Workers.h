// Pieces of work that may spoil the process that does them: a kernel can fault, crash or hang, and
// takes the device from its process.
#pragma once
#include "llvm/Support/JSON.h"
#include <cstddef>
#include <functional>
#include <string>

namespace sectile::tool {

struct Workers {
  // In a new process, before its first piece. What it throws there ends everything
  // if nothing is done yet.
  std::function<void()> begin;
  // Piece i; what it throws is a piece that failed.
  std::function<llvm::json::Object(std::size_t i)> work;
  // Here, after each piece: what it came to, or why there is nothing. Whether to go on.
  std::function<bool(std::size_t i, llvm::json::Object result, const std::string &error)> done;
  double deadline = 0; // seconds for a piece
};

// Does all pieces in order in another process, and goes on in a new one after a piece that threw
// something else than InputError or CompileError, ended the process or passed the deadline. Nothing
// in this process may have asked a driver for anything before.
void runInWorkers(std::size_t pieces, const Workers &workers);

} // namespace sectile::tool
