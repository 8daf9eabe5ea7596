// The programs as functions of libsectile: all that it exports beside the public headers. Not
// installed.
#pragma once

namespace sectile::tool {

// The program `sectile`; gives its exit status.
int sectileMain(int argc, char **argv);
// The program `sectile-opt`.
int sectileOptMain(int argc, char **argv);

} // namespace sectile::tool
