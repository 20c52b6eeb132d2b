// Run a target on random inputs, without a fuzzer and its sanitizers: a million in minutes. Arguments: COUNT [SEED].
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

long long number = 0;  // of the current input

void tell(int) {
  std::fprintf(stderr, "input %lld\n", number);
  std::_Exit(1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" size_t LLVMFuzzerMutate(uint8_t*, size_t size, size_t) { return size; }  // inputs are not mutated

int main(int count, char** given) {
  const long long wanted = count > 1 ? std::atoll(given[1]) : 1000;
  std::mt19937_64 random(count > 2 ? std::strtoull(given[2], nullptr, 10) : 1);
  std::vector<uint8_t> bytes(4096);
  std::signal(SIGABRT, tell);
  for (; number < wanted; ++number) {
    const size_t size = 64 + random() % (bytes.size() - 64);
    for (size_t at = 0; at < size; ++at) bytes[at] = static_cast<uint8_t>(random());
    LLVMFuzzerTestOneInput(bytes.data(), size);
  }
  std::printf("%lld inputs\n", wanted);
  return 0;
}
