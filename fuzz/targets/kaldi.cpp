// Kaldi's archives, binary and text, read as a whole and in windows, with equal results.
// Covers: formats/kaldi_table.hpp formats/kaldi_read.hpp formats/kaldi_text.hpp formats/staging.hpp
#include "archives.hpp"
#include "mutate.hpp"

namespace {

using fuzz::Bytes;

std::vector<std::string> read(const std::string& file, size_t window_size, const std::vector<uint8_t>* known) {
  ninja::TableParser parser;
  if (known != nullptr) {
    parser.known = known->data();
    parser.num_known = static_cast<int64_t>(known->size());
  }
  std::vector<std::string> found;
  size_t at = 0, end = std::min(window_size, file.size());
  while (true) {
    const Bytes bytes(file.data() + at, end - at, ninja::kSlack);
    const ninja::Window window{bytes.begin(), bytes.end(), static_cast<int64_t>(at),
                               static_cast<int64_t>(file.size() - end)};
    std::vector<ninja::Entry> entries;
    const int64_t consumed = parser.parse(window, entries);
    fuzz::expect(consumed >= 0 && consumed <= bytes.size(), "no more is consumed than there is");
    for (ninja::Entry& entry : entries) {
      found.push_back(fuzz::told(entry, static_cast<int64_t>(at) + (entry.object - bytes.begin())));
    }
    at += static_cast<size_t>(consumed);
    if (parser.broken) break;
    if (end == file.size()) {
      fuzz::expect(at == end, "a whole file is consumed");
      break;
    }
    end = std::min(file.size(), end + std::max(window_size, end - at));
  }
  return found;
}

}  // namespace

FUZZ_TARGET(mutate_any) {
  const uint8_t how = draw.ConsumeIntegral<uint8_t>();
  const std::vector<uint8_t> known{1, 1, 1, 0, 1, 1, 1, 1};
  const std::string file = fuzz::rest(draw);
  const std::vector<uint8_t>* given = how & 1 ? &known : nullptr;
  const std::vector<std::string> whole = read(file, file.size(), given);
  if (how & 2) fuzz::expect(read(file, 1 + how / 4, given) == whole, "an archive reads the same in windows");
  if (how & 4) {  // one lattice without its key, with more to come or not
    const Bytes bytes(file, ninja::kSlack);
    ninja::TableParser parser;
    ninja::Entry entry;
    const char* at = bytes.begin();
    const ninja::Scan scan = parser.parse_one({bytes.begin(), bytes.end(), 0, how & 8 ? 1000 : 0}, at, entry);
    fuzz::expect(at >= bytes.begin() && at <= bytes.end(), "no more is consumed than there is");
    if (scan != ninja::Scan::kMore) fuzz::told(entry, entry.object - bytes.begin());
  }
}
