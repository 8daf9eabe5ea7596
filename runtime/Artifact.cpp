// Artifacts as bytes and back.
#include "runtime/Artifact.h"
#include "runtime/ByteStream.h"
#include "runtime/Checksum.h"
#include <cstring>

namespace sectile {
namespace {

constexpr char magic[8] = {'s', 'e', 'c', 't', 'i', 'l', 'e', 'a'};
constexpr uint32_t version = 11;
constexpr size_t headerSize = sizeof(magic) + sizeof(version) + sizeof(uint64_t);

void writeSite(ByteWriter &out, const DebugSite &site) {
  out.number(static_cast<uint32_t>(site.isPrint | site.hex << 1));
  out.text(site.text);
  out.text(site.file);
  out.number(static_cast<uint32_t>(site.line));
  out.number(static_cast<uint64_t>(site.values.size()));
  for (const DebugValue &value : site.values) {
    out.text(value.type);
    out.number(static_cast<uint64_t>(value.shape.size()));
    for (int64_t extent : value.shape)
      out.number(extent);
  }
}

DebugSite readSite(ByteReader &in) {
  DebugSite site;
  const auto flags = in.number<uint32_t>();
  site.isPrint = flags & 1;
  site.hex = flags >> 1 & 1;
  site.text = in.text();
  site.file = in.text();
  site.line = in.number<uint32_t>();
  for (uint64_t values = in.count(); values && in.ok(); --values) {
    DebugValue &value = site.values.emplace_back();
    value.type = in.text();
    for (uint64_t extents = in.count(); extents && in.ok(); --extents)
      value.shape.push_back(in.number<int64_t>());
  }
  return site;
}

} // namespace

bool areDistinct(unsigned rank, const uint64_t *extents, const uint64_t *strides) {
  __extension__ using Wide = unsigned __int128;
  const auto strideOf = [&](unsigned axis) -> Wide {
    const auto stride = static_cast<int64_t>(strides[axis]);
    return stride < 0 ? -static_cast<Wide>(stride) : static_cast<Wide>(stride);
  };
  // The reach of the axes so far. It has at most 64 bits where it is compared: a stride has no
  // more.
  Wide reach = 1;
  const auto add = [&](unsigned axis) {
    if (strideOf(axis) < reach)
      return false;
    reach += (extents[axis] - 1) * strideOf(axis);
    return true;
  };
  const auto counts = [&](unsigned axis) { return static_cast<int64_t>(extents[axis]) > 1; };
  unsigned axis = rank;
  while (axis > 0 && (!counts(axis - 1) || add(axis - 1)))
    --axis;
  if (axis == 0)
    return true;
  // Not row by row: in the order of the strides. A tensor without elements has none at all.
  unsigned order[8], count = 0;
  if (rank > std::size(order))
    return false;
  for (axis = 0; axis < rank; ++axis)
    if (counts(axis))
      order[count++] = axis;
    else if (extents[axis] != 1)
      return true;
  std::sort(order, order + count,
            [&](unsigned a, unsigned b) { return strideOf(a) < strideOf(b); });
  reach = 1;
  return std::all_of(order, order + count, add);
}

std::string brokenFact(const LaunchPlan &plan, std::span<const uint64_t> arguments) {
  for (size_t i = 0; i < plan.arguments.size(); ++i) {
    const ArgumentFacts &facts = plan.arguments[i];
    if (i >= arguments.size())
      return "argument " + std::to_string(i) + " is missing";
    const auto value = static_cast<int64_t>(arguments[i]);
    const std::string what = "argument " + std::to_string(i) + " is ";
    if (facts.divisor > 1 && arguments[i] % facts.divisor != 0)
      return what + std::to_string(arguments[i]) + ", no multiple of " +
             std::to_string(facts.divisor);
    if (value < facts.low || value > facts.high)
      return what + std::to_string(value) + ", not from " + std::to_string(facts.low) + " to " +
             std::to_string(facts.high);
    if (facts.distinct &&
        (i + 2 * facts.distinct >= arguments.size() ||
         !areDistinct(facts.distinct, &arguments[i + 1], &arguments[i + 1 + facts.distinct])))
      return "elements of the view at argument " + std::to_string(i) + " overlap";
  }
  return {};
}

TensorMapValues valuesOf(const TensorMapPlan &plan, void *const *arguments) {
  auto word = [&](unsigned number) {
    uint64_t value;
    std::memcpy(&value, arguments[number], sizeof value);
    return value;
  };
  auto value = [&](const TensorMapPlan::Given &given) -> int64_t {
    if (given.argument < 0)
      return given.constant;
    const unsigned unused = 64 - given.bits;
    return given.constant +
           given.factor * (static_cast<int64_t>(word(given.argument) << unused) >> unused);
  };
  TensorMapValues map;
  map.address = word(plan.pointer);
  map.rank = static_cast<unsigned>(plan.extents.size());
  map.elementBytes = plan.elementBytes;
  map.number = plan.number;
  map.swizzle = plan.swizzle;
  map.isWritten = plan.isWritten;
  for (unsigned i = 0; i < map.rank; ++i) {
    map.extents[i] = static_cast<uint64_t>(std::max<int64_t>(value(plan.extents[i]), 0));
    map.box[i] = plan.box[i];
    if (i + 1 < map.rank)
      map.strides[i] = static_cast<uint64_t>(value(plan.strides[i])) * plan.elementBytes;
  }
  return map;
}

std::string serialize(const Artifact &artifact) {
  std::string body;
  ByteWriter fields(body);
  for (const std::string *text :
       {&artifact.target, &artifact.kind, &artifact.entry, &artifact.bytes, &artifact.irHash})
    fields.text(*text);
  const Resources &resources = artifact.resources;
  for (unsigned value : {artifact.plan.threads, artifact.plan.sharedBytes, artifact.plan.cluster,
                         resources.registers, resources.spillBytes, resources.staticSharedBytes})
    fields.number(static_cast<uint32_t>(value));
  fields.number(static_cast<uint32_t>(artifact.plan.wait));
  fields.number(static_cast<uint64_t>(artifact.plan.arguments.size()));
  for (const ArgumentFacts &facts : artifact.plan.arguments) {
    fields.number(facts.divisor);
    fields.number(facts.low);
    fields.number(facts.high);
    fields.number(static_cast<uint32_t>(facts.distinct));
  }
  fields.number(static_cast<uint32_t>(artifact.plan.firstTensorMap));
  fields.number(static_cast<uint64_t>(artifact.plan.tensorMaps.size()));
  auto writeGiven = [&](const std::vector<TensorMapPlan::Given> &all) {
    fields.number(static_cast<uint64_t>(all.size()));
    for (const TensorMapPlan::Given &given : all) {
      fields.number(given.argument);
      fields.number(static_cast<uint32_t>(given.bits));
      fields.number(given.constant);
      fields.number(given.factor);
    }
  };
  for (const TensorMapPlan &map : artifact.plan.tensorMaps) {
    for (unsigned value : {map.pointer, map.elementBytes, map.swizzle})
      fields.number(static_cast<uint32_t>(value));
    writeGiven(map.extents);
    writeGiven(map.strides);
    fields.number(static_cast<uint64_t>(map.box.size()));
    for (unsigned extent : map.box)
      fields.number(static_cast<uint32_t>(extent));
    fields.number(static_cast<uint32_t>(map.number));
    fields.number(static_cast<uint32_t>(map.isWritten));
  }
  fields.number(artifact.compileMilliseconds);
  fields.number(static_cast<uint64_t>(artifact.debugSites.size()));
  for (const DebugSite &site : artifact.debugSites)
    writeSite(fields, site);
  fields.number(static_cast<uint64_t>(artifact.remarks.size()));
  for (const Remark &remark : artifact.remarks) {
    fields.text(remark.file);
    fields.number(static_cast<uint32_t>(remark.line));
    fields.text(remark.text);
    fields.number(remark.operation);
  }

  std::string bytes(magic, sizeof magic);
  ByteWriter header(bytes);
  header.number(version);
  header.number(checksumOf(body));
  return bytes + body;
}

std::optional<Artifact> deserialize(std::string_view bytes) {
  if (bytes.size() < headerSize || std::memcmp(bytes.data(), magic, sizeof magic) != 0)
    return std::nullopt;
  ByteReader header(bytes.substr(sizeof magic));
  std::string_view body = bytes.substr(headerSize);
  if (header.number<uint32_t>() != version || header.number<uint64_t>() != checksumOf(body))
    return std::nullopt;

  Artifact artifact;
  ByteReader fields(body);
  for (std::string *text :
       {&artifact.target, &artifact.kind, &artifact.entry, &artifact.bytes, &artifact.irHash})
    *text = fields.text();
  Resources &resources = artifact.resources;
  for (unsigned *value :
       {&artifact.plan.threads, &artifact.plan.sharedBytes, &artifact.plan.cluster,
        &resources.registers, &resources.spillBytes, &resources.staticSharedBytes})
    *value = fields.number<uint32_t>();
  artifact.plan.wait = static_cast<WaitPoint>(fields.number<uint32_t>());
  for (uint64_t arguments = fields.count(); arguments && fields.ok(); --arguments) {
    ArgumentFacts &facts = artifact.plan.arguments.emplace_back();
    facts.divisor = fields.number<uint64_t>();
    facts.low = fields.number<int64_t>();
    facts.high = fields.number<int64_t>();
    facts.distinct = fields.number<uint32_t>();
  }
  artifact.plan.firstTensorMap = fields.number<uint32_t>();
  auto readGiven = [&](std::vector<TensorMapPlan::Given> &all) {
    for (uint64_t count = fields.count(); count && fields.ok(); --count) {
      TensorMapPlan::Given &given = all.emplace_back();
      given.argument = fields.number<int32_t>();
      given.bits = fields.number<uint32_t>();
      given.constant = fields.number<int64_t>();
      given.factor = fields.number<int64_t>();
    }
  };
  for (uint64_t maps = fields.count(); maps && fields.ok(); --maps) {
    TensorMapPlan &map = artifact.plan.tensorMaps.emplace_back();
    for (unsigned *value : {&map.pointer, &map.elementBytes, &map.swizzle})
      *value = fields.number<uint32_t>();
    readGiven(map.extents);
    readGiven(map.strides);
    for (uint64_t box = fields.count(); box && fields.ok(); --box)
      map.box.push_back(fields.number<uint32_t>());
    map.number = static_cast<TensorNumber>(fields.number<uint32_t>());
    map.isWritten = fields.number<uint32_t>();
  }
  artifact.compileMilliseconds = fields.number<double>();
  for (uint64_t sites = fields.count(); sites && fields.ok(); --sites)
    artifact.debugSites.push_back(readSite(fields));
  for (uint64_t remarks = fields.count(); remarks && fields.ok(); --remarks) {
    Remark &remark = artifact.remarks.emplace_back();
    remark.file = fields.text();
    remark.line = fields.number<uint32_t>();
    remark.text = fields.text();
    remark.operation = fields.number<int32_t>();
  }
  if (!fields.finished() || artifact.plan.wait > WaitPoint::ByHand)
    return std::nullopt;
  return artifact;
}

} // namespace sectile
