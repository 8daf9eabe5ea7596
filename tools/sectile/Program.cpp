// The main function of `sectile`; the rest is in libsectile.
#include "tools/Programs.h"

int main(int argc, char **argv) { return sectile::tool::sectileMain(argc, argv); }
