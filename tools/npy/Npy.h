// NumPy's .npy files, format versions 1 to 3.
#pragma once
#include "kernels/references/HostArray.h"
#include <string>
#include <string_view>

namespace sectile {

// bool, integers and floats of either byte order, in C or Fortran order (the result is in C order).
// Raw two- and one-byte items (NumPy's V2 and V1, which bfloat16 and fp8 arrays are saved as) come
// as u16 and u8. Throws InputError, one sentence that names the file.
HostArray readNpy(const std::string &path);
// The same for the contents of a file; `path` is for messages.
HostArray parseNpy(std::string_view contents, const std::string &path);

// bfloat16 and fp8, which NumPy has no names for, are written as u16 and u8.
void writeNpy(const std::string &path, const HostArray &array);

// u16 as bf16 or f16, u8 as an fp8 type: the same bits under another name. Throws InputError.
void reinterpret(HostArray &array, DType dtype, const std::string &path);

} // namespace sectile
