// The main function of `sectile-opt`; the rest is in libsectile.
#include "tools/Programs.h"

int main(int argc, char **argv) { return sectile::tool::sectileOptMain(argc, argv); }
