// Kaldi's archives, read ahead by a thread in chunks of any size, to the end or abandoned; all entries are correct.
// Covers: formats/read_ahead.hpp core/pool.hpp
#include "formats/read_ahead.hpp"

#include <sys/mman.h>

#include "archives.hpp"
#include "mutate.hpp"

namespace {

std::vector<std::string> read_whole(const std::string& file) {
  const fuzz::Bytes bytes(file, ninja::kSlack);
  std::vector<std::string> entries;
  for (ninja::Entry& entry : fuzz::parse_whole(bytes)) entries.push_back(fuzz::told(entry, 0));
  return entries;
}

}  // namespace

FUZZ_TARGET(mutate_any) {
  const uint8_t how = draw.ConsumeIntegral<uint8_t>();
  const std::string file = fuzz::rest(draw);
  const int64_t chunk = how & 1 ? 1 + how / 8 : 1 + how * 16, ahead = how & 2 ? 1 : 1000,
                leave = how & 4 ? how / 16 : -1;
  const int64_t largest = how & 8 ? 1 + how : 1 << 20;
  const int handle = ::memfd_create("archive", 0);
  fuzz::expect(handle >= 0 && ::write(handle, file.data(), file.size()) == static_cast<ssize_t>(file.size()),
               "there is memory for a file");
  const std::vector<std::string> whole = read_whole(file);
  ninja::FileReader reader(handle, 0, static_cast<int64_t>(file.size()), nullptr, 0, chunk, ahead, largest);
  std::vector<std::string> found;
  int64_t num_batches = 0;
  auto state = ninja::FileReader::kWait;
  while (num_batches != leave) {
    ninja::EntryBatch batch;
    state = reader.next(batch, 10000);
    if (state != ninja::FileReader::kBatch) break;
    ++num_batches;
    fuzz::expect(!batch.entries.empty(), "a batch has an entry");
    for (ninja::Entry& entry : batch.entries) found.push_back(fuzz::told(entry, 0));
  }
  fuzz::expect(found.size() <= whole.size() && std::equal(found.begin(), found.end(), whole.begin()),
               "what comes is what is there");
  if (num_batches == leave) return;
  fuzz::expect(state == ninja::FileReader::kEnd || (state == ninja::FileReader::kTooLarge && largest < 1000),
               "a reader comes to its end");
  if (state == ninja::FileReader::kEnd) fuzz::expect(found.size() == whole.size(), "nothing is left out");
}
