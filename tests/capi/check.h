// How the C programs of these tests check: the first thing that is not so ends them, with its line.
#ifndef SECTILE_TESTS_CAPI_CHECK_H
#define SECTILE_TESTS_CAPI_CHECK_H

#include <sectile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "line %d: not so: %s; last error: %s\n", __LINE__, #condition,               \
              sectile_error());                                                                    \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)
#define OK(call) EXPECT((call) == SECTILE_OK)
// A failure says in words what was wrong.
#define FAILS(status, words, call)                                                                 \
  do {                                                                                             \
    EXPECT((call) == (status));                                                                    \
    EXPECT(strstr(sectile_error(), words));                                                        \
  } while (0)

#endif
