// Counters as a table for people.
#include "vgpu/Counters.h"
#include <algorithm>
#include <cstdio>

namespace sectile::vgpu {
namespace {

std::string ratio(uint64_t part, uint64_t ideal) {
  if (!ideal)
    return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", double(part) / double(ideal));
  return text;
}

void addRow(std::string &table, const std::string &place, const char *what,
            const AccessCounters &access, uint64_t units, uint64_t ideal) {
  if (!access.requests)
    return;
  char text[256];
  std::snprintf(text, sizeof text, "%-28s %-13s %12llu %14llu %12llu %8s\n", place.c_str(), what,
                static_cast<unsigned long long>(access.requests),
                static_cast<unsigned long long>(access.bytes),
                static_cast<unsigned long long>(units), ratio(units, ideal).c_str());
  table += text;
}

template <class Source>
void addRows(std::string &table, const std::string &place, const Source &counters) {
  for (auto [what, access] : {std::pair{"global load", &counters.globalLoad},
                              {"global store", &counters.globalStore},
                              {"global atomic", &counters.globalAtomic},
                              {"async copy", &counters.asyncCopy}})
    addRow(table, place, what, *access, access->sectors, access->idealSectors);
  for (auto [what, access] :
       {std::pair{"shared load", &counters.sharedLoad}, {"shared store", &counters.sharedStore}})
    addRow(table, place, what, *access, access->wavefronts, access->idealWavefronts);
}

} // namespace

std::string Counters::text() const {
  char head[256];
  std::snprintf(head, sizeof head, "%-28s %-13s %12s %14s %12s %8s\n", "line", "access", "requests",
                "bytes", "sectors/wave", "of ideal");
  std::string table = head;
  for (const LineCounters &line : lines) {
    std::string place = line.file.empty() ? "-" : line.file.substr(line.file.rfind('/') + 1);
    addRows(table, place + ":" + std::to_string(line.line), line);
  }
  addRows(table, "all", *this);
  table += std::to_string(blocks) + " blocks, " + std::to_string(instructions) +
           " instructions of threads, " + std::to_string(barriers) + " barriers, " +
           std::to_string(shuffles) + " shuffles, " + std::to_string(warpOperations) +
           " other warp operations\n";
  for (const Kind &kind : mmaKinds)
    table += std::to_string(kind.count) + " of " + kind.name + "\n";
  return table;
}

} // namespace sectile::vgpu
