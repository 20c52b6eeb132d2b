// A copy of a function per instruction set, the best of which the loader selects; a single one if that is not
// supported.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#define NINJA_CLONES __attribute__((target_clones("avx512f", "avx2,fma", "default")))
#else
#define NINJA_CLONES
#endif
