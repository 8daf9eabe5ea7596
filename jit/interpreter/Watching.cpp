// Stops at lines of source, and at the first NaN.
#include "jit/interpreter/Watching.h"
#include "codegen/DebugSites.h"
#include "codegen/common/DebugInfo.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "runtime/DebugFormat.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <mutex>
#include <unistd.h>

using namespace mlir;

namespace sectile::interpreter {

//===-- Lines ---------------------------------------------------------------------------------===//

namespace {

/// A line's text, where the source is at hand.
std::string sourceLine(const std::string &file, unsigned line) {
  std::ifstream source(file);
  std::string text;
  for (unsigned i = 0; i < line; ++i)
    if (!std::getline(source, text))
      return "";
  return llvm::StringRef(text).trim().str();
}

LineValue describe(Operation &op, Type type, const Elements &value) {
  LineValue described{op.getName().stripDialect().str(),
                      debugTypeName(tile::elementType(type), false),
                      std::vector<int64_t>(value.shape.begin(), value.shape.end()), ""};
  DebugSite site;
  site.values.push_back({described.type, described.shape});
  const size_t size = value.type.bytes();
  std::vector<char> bytes(value.size() * size);
  for (size_t i = 0; i < value.size(); ++i)
    std::memcpy(&bytes[i * size], &value.words[i], size);
  described.text = runtime::formatValue(site.values.front(), bytes.data());
  return described;
}

} // namespace

std::string LineStop::text() const {
  std::string result = file + ":" + std::to_string(line) + ", kernel " + kernel + ", program (" +
                       std::to_string(program[0]) + ", " + std::to_string(program[1]) + ", " +
                       std::to_string(program[2]) + ")\n";
  if (const std::string source = sourceLine(file, line); !source.empty())
    result += "  " + source + "\n";
  for (const LineValue &value : values)
    result += value.operation + ": " + value.text;
  return result;
}

const Watch *LineWatch::watchOf(Operation &op, unsigned &line) const {
  const FileLineColLoc place = lineOf(op.getLoc());
  if (!place)
    return nullptr;
  line = place.getLine();
  for (const Watch &watch : watches)
    if (watch.line == line && place.getFilename().getValue().ends_with(watch.file))
      return &watch;
  return nullptr;
}

void LineWatch::saw(Operation &op) {
  unsigned line = 0;
  const Watch *watch = watchOf(op, line);
  if (watch != current)
    leave();
  if (!watch)
    return;
  if (!current) {
    current = watch;
    stop = {};
    stop.kernel = run.kernelName();
    stop.file = lineOf(op.getLoc()).getFilename().str();
    stop.line = line;
    stop.program = {run.id.x, run.id.y, run.id.z};
  }
  if (isa<arith::ConstantOp>(op))
    return;
  for (Value result : op.getResults())
    if (!isa<tile::ViewType>(result.getType()))
      stop.values.push_back(describe(op, result.getType(), run.get(result)));
}

void LineWatch::leave() {
  if (const Watch *watch = std::exchange(current, nullptr))
    watch->handler(stop);
}

//===-- NaN -----------------------------------------------------------------------------------===//

static std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

void checkNan(const Run &run, Operation &op) {
  if (op.getNumRegions() || op.getNumResults() != 1 ||
      isa<arith::ConstantOp, tile::LoadOp, tile::LoadBlockOp, tile::AtomicRMWOp, tile::AtomicCasOp,
          tile::AtomicBlockOp, arith::BitcastOp>(op))
    return;
  const Elements &result = run.get(op.getResult(0));
  if (!result.type.format)
    return;
  for (size_t i = 0; i < result.size(); ++i) {
    if (!result.type.format->isNan(result[i]))
      continue;
    bool had = false;
    std::string from;
    for (Value operand : op.getOperands()) {
      const Elements &given = run.get(operand);
      if (!given.type.format)
        continue;
      const bool pairs = given.shape.empty() || given.shape == result.shape;
      for (size_t j = 0; j < given.size(); ++j) {
        if (pairs && j != (given.shape.empty() ? 0 : i))
          continue;
        had |= given.type.format->isNan(given[j]);
        if (pairs)
          from += (from.empty() ? " of " : " and ") + numberText(given.asDouble(j));
      }
    }
    if (!had)
      run.fail(vgpu::FindingKind::NotANumber, op,
               op.getName().stripDialect().str() + from + " gives NaN", placeText(i, result.shape));
  }
}

//===-- The process ---------------------------------------------------------------------------===//

namespace {

struct Watched {
  std::mutex mutex;
  std::vector<Watch> watches;
  bool nan = false;

  static Watched &get() {
    static auto *watched = new Watched;
    return *watched;
  }

private:
  Watched() {
    if (const char *trap = std::getenv("SECTILE_TRAP"))
      nan = std::strcmp(trap, "nan") == 0;
    const llvm::StringRef place = std::getenv("SECTILE_BREAK") ? std::getenv("SECTILE_BREAK") : "";
    Watch watch;
    if (!place.empty() && !place.rsplit(':').second.getAsInteger(10, watch.line)) {
      watch.file = place.rsplit(':').first.str();
      watch.handler = [](const LineStop &stop) {
        std::fputs(stop.text().c_str(), stderr);
        if (!isatty(STDIN_FILENO))
          return;
        std::fputs("Enter goes on.\n", stderr);
        std::cin.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
      };
      watches.push_back(std::move(watch));
    }
  }
};

} // namespace

void on_line(std::string_view file, unsigned line, LineHandler handler) {
  Watched &watched = Watched::get();
  std::lock_guard lock(watched.mutex);
  watched.watches.push_back({std::string(file), line, std::move(handler)});
}

void clear_lines() {
  Watched &watched = Watched::get();
  std::lock_guard lock(watched.mutex);
  watched.watches.clear();
}

void trap_nan(bool on) {
  Watched &watched = Watched::get();
  std::lock_guard lock(watched.mutex);
  watched.nan = on;
}

void watchAsAsked(Options &options) {
  Watched &watched = Watched::get();
  std::lock_guard lock(watched.mutex);
  options.watches = watched.watches;
  options.trapNan = watched.nan;
}

} // namespace sectile::interpreter
