// Compiler options that change the results of sums and comparisons.
#pragma once

namespace ninja {

// Return the first such option with which this file was compiled, or an empty string.
inline const char* unsafe_option() {
#if defined(__FAST_MATH__)
  return "-ffast-math";
#elif defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
  return "-ffinite-math-only";
#elif defined(__ASSOCIATIVE_MATH__)
  return "-fassociative-math";
#elif defined(__RECIPROCAL_MATH__)
  return "-freciprocal-math";
#elif defined(__NO_SIGNED_ZEROS__)
  return "-fno-signed-zeros";
#else
  return "";
#endif
}

}  // namespace ninja
