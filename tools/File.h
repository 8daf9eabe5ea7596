// Files as the command line needs them: read whole, written so that nothing half-written stays.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

namespace sectile {

// Both throw InputError, one sentence that names the file.
std::string readFile(const std::string &path);
// The pieces one after another. They go into a file beside it that takes its name at the end.
void writeFile(const std::string &path, std::initializer_list<std::string_view> pieces);
// Whether a second writeFile would replace what the first one wrote: a pipe or a device has both.
bool isReplaced(const std::string &path);
// Throws now what writeFile would throw because of the folder: before the work, not after it.
void checkWritable(const std::string &path);

} // namespace sectile
