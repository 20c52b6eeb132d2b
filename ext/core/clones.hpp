// Compiles a function for several instruction sets, of which the loader selects the best that the processor supports.
// Other compilers and systems compile it once.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#define NINJA_CLONES __attribute__((target_clones("avx512f", "avx2,fma", "default")))
#else
#define NINJA_CLONES
#endif
