// The table of machine models; docs/autotuner.md names the source of each number.
#include "runtime/MachineModel.h"
#include <stdexcept>

namespace sectile {
namespace {

struct Entry {
  const char *target;
  MachineModel model;
};

constexpr Entry table[] = {
    {"sm_80",
     {"A100 SXM 80 GB", 108, 1.41, 2039, 5120, 40, 128, 2048, 32, 1024, 512, 2048, 0, 64, 0, 1024}},
    {"sm_86", {"RTX A6000", 84, 1.80, 768, 2560, 6, 128, 1536, 16, 512, 256, 1024, 0, 2, 0, 512}},
    {"sm_89",
     {"RTX 4090", 128, 2.52, 1008, 2560, 72, 128, 1536, 24, 256, 128, 1024, 512, 2, 0, 256}},
    {"sm_90",
     {"H100 SXM", 132, 1.83, 3352, 5120, 50, 128, 2048, 32, 1280, 640, 2560, 2560, 128, 0, 2048}},
    {"sm_90a",
     {"H100 SXM", 132, 1.83, 3352, 5120, 50, 128, 2048, 32, 2048, 640, 4096, 4096, 128, 0, 2048}},
    {"sm_100",
     {"B200", 148, 1.85, 8000, 5120, 126, 128, 2048, 32, 1280, 640, 2560, 2560, 64, 0, 4096}},
    {"sm_100a",
     {"B200", 148, 1.85, 8000, 5120, 126, 128, 2048, 32, 1280, 640, 2560, 2560, 64, 0, 4096}},
    {"sm_103a",
     {"B300", 148, 1.85, 8000, 5120, 126, 128, 2048, 32, 1280, 640, 2560, 2560, 2, 0, 4096}},
    {"sm_120",
     {"RTX 5090", 170, 2.41, 1792, 2560, 96, 128, 1536, 24, 256, 128, 1024, 512, 2, 0, 256}},
    {"sm_120a",
     {"RTX 5090", 170, 2.41, 1792, 2560, 96, 128, 1536, 24, 256, 128, 1024, 512, 2, 0, 256}},
    {"gfx90a", {"MI210", 104, 1.70, 1638, 4096, 8, 64, 2048, 32, 512, 0, 512, 0, 128, 128, 512}},
    {"gfx942",
     {"MI300X", 304, 2.10, 5300, 8192, 256, 64, 2048, 32, 1024, 512, 2048, 2048, 128, 128, 1024}},
    {"gfx950",
     {"MI355X", 256, 2.40, 8000, 8192, 256, 64, 2048, 32, 2048, 0, 4096, 2048, 64, 128, 2048}},
    {"gfx1100", {"RX 7900 XTX", 96, 2.50, 960, 3072, 6, 128, 1024, 32, 256, 0, 256, 0, 0, 0, 256}},
    {"gfx1201",
     {"RX 9070 XT", 64, 2.97, 645, 2048, 8, 128, 1024, 32, 512, 0, 1024, 1024, 0, 0, 512}},
};

} // namespace

unsigned MachineModel::perClock(MmaElement element) const {
  switch (element) {
  case MmaElement::F16:
  case MmaElement::BF16:
    return f16;
  case MmaElement::TF32:
    return tf32;
  case MmaElement::F32:
    return f32;
  case MmaElement::I8:
  case MmaElement::I32:
    return int8;
  case MmaElement::F8E4M3:
  case MmaElement::F8E5M2:
  case MmaElement::F8E4M3FNUZ:
  case MmaElement::F8E5M2FNUZ:
    return fp8;
  case MmaElement::F64:
    return f64;
  }
  throw std::logic_error("an unknown matrix element");
}

const MachineModel &machineModel(const Chip &chip) {
  for (const Entry &entry : table)
    if (chip.name == entry.target)
      return entry.model;
  throw std::logic_error("a chip without a machine model: " + chip.name);
}

} // namespace sectile
