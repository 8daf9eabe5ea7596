// Reads the resource use out of a code object: a note holds it as MessagePack.
#include "codegen/amd/CodeObject.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/BinaryFormat/MsgPackDocument.h"
#include "llvm/Object/ELF.h"

using namespace llvm;

static unsigned number(msgpack::MapDocNode &map, StringRef name) {
  auto found = map.find(name);
  return found != map.end() && found->second.getKind() == msgpack::Type::UInt
             ? static_cast<unsigned>(found->second.getUInt())
             : 0;
}

static sectile::Resources readMetadata(StringRef text) {
  msgpack::Document document;
  if (!document.readFromBlob(text, /*Multi=*/false) || !document.getRoot().isMap())
    return {};
  msgpack::DocNode &kernels = document.getRoot().getMap()["amdhsa.kernels"];
  if (!kernels.isArray() || kernels.getArray().empty() || !kernels.getArray()[0].isMap())
    return {};
  msgpack::MapDocNode &kernel = kernels.getArray()[0].getMap();
  sectile::Resources resources;
  resources.registers = number(kernel, ".vgpr_count");
  // A spilled scalar register is a word of the whole wave; it counts as a thread's.
  resources.spillBytes =
      4 * (number(kernel, ".vgpr_spill_count") + number(kernel, ".sgpr_spill_count"));
  resources.staticSharedBytes = number(kernel, ".group_segment_fixed_size");
  return resources;
}

sectile::Resources sectile::resourcesOfCodeObject(StringRef codeObject) {
  auto file = object::ELF64LEFile::create(codeObject);
  if (!file) {
    consumeError(file.takeError());
    return {};
  }
  auto headers = file->program_headers();
  if (!headers) {
    consumeError(headers.takeError());
    return {};
  }
  Resources resources;
  for (const auto &header : *headers) {
    if (header.p_type != ELF::PT_NOTE)
      continue;
    Error error = Error::success();
    for (const auto &note : file->notes(header, error))
      if (note.getType() == ELF::NT_AMDGPU_METADATA && note.getName() == "AMDGPU")
        resources = readMetadata(note.getDescAsStringRef(header.p_align));
    consumeError(std::move(error));
  }
  return resources;
}
