// Kernels on threads, for ThreadSanitizer: calls that Python makes without its lock, at random moments.
//
// threads COUNT SECONDS [SEED]: threads work on the same batches, exchange their results, read one file ahead, abandon
// readers, and query one n-gram model; each result must equal that of a single thread.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "align/batches.hpp"
#include "archives.hpp"
#include "consensus/mbr.hpp"
#include "core/times.hpp"
#include "formats/kaldi_write.hpp"
#include "formats/read_ahead.hpp"
#include "graph/batches.hpp"
#include "graph/oracle.hpp"
#include "graph/posteriors.hpp"
#include "models.hpp"
#include "search/expander.hpp"

namespace {

using Random = std::minstd_rand;

constexpr int kBatches = 6, kLattices = 24;  // of each batch
constexpr ninja::Scales kScales{0.5, 1.0, 0.25};
const char* const kArpa =
    "\\data\\\nngram 1=5\nngram 2=4\n\n\\1-grams:\n-1\t<s>\t-0.3\n-1\t</s>\n-0.5\ta\t-0.2\n-0.7\tb\t-0.1\n-0.9\tc\n\n"
    "\\2-grams:\n-0.2\t<s> a\n-0.3\ta b\n-0.4\tb c\n-0.5\ta </s>\n\n\\end\\\n";

void nap(Random& random) {
  if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
}

std::string bytes_of(const ninja::Items& items) {
  std::string made;
  for (const ninja::Item& item : items) made += item.key + "|" + fuzz::bytes_of(item.arcs, item.labels);
  return made;
}

std::string told(const ninja::Results& results) {
  std::string made = bytes_of(results.items);
  for (const ninja::Failure& failure : results.failures) made += std::to_string(failure.place) + failure.message;
  return made;
}

template <class T>
std::string bytes_of(const std::vector<T>& from) {
  return {reinterpret_cast<const char*>(from.data()), from.size() * sizeof(T)};
}

// Data that all threads read and none changes.
struct Shared {
  std::vector<ninja::Items> batches;
  ninja::NgramModel model;
  std::string path;  // of an archive of all batches
  std::string archive;
  std::vector<std::string> keys;  // in it
};

// Passes lattices between threads, so that one creates them and another frees them.
class Exchange {
 public:
  void put(ninja::Items items) {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(items));
    if (queue_.size() > 8) queue_.pop_front();
  }
  ninja::Items take() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (queue_.empty()) return {};
    ninja::Items items = std::move(queue_.front());
    queue_.pop_front();
    return items;
  }

 private:
  std::mutex mutex_;
  std::deque<ninja::Items> queue_;
};

std::string decoded(const ninja::Items& items) {
  std::string made;
  for (const ninja::Item& item : items) {
    std::vector<int32_t> time(static_cast<size_t>(item.arcs.num_states));
    for (size_t state = 0; state < time.size(); ++state) time[state] = static_cast<int32_t>(state);
    ninja::Consensus found;
    if (ninja::decode_mbr(item.arcs, item.labels, time.data(), nullptr, kScales, nullptr, true, false, 1 << 20, 1, 64,
                          found)) {
      made += bytes_of(found.words) + bytes_of(found.posterior);
    }
  }
  return made;
}

std::string measured(const ninja::Items& items) {
  std::string made;
  const std::vector<int32_t> reference{1, 2, 3, 1};
  for (const ninja::Item& item : items) {
    std::vector<double> posterior(static_cast<size_t>(item.arcs.num_arcs));
    if (ninja::posteriors(item.arcs, kScales, posterior.data())) made += bytes_of(posterior);
    made += bytes_of(ninja::oracle(item.arcs, reference.data(), 4).arc);
  }
  return made;
}

std::string aligned(const ninja::Items& items) {
  std::vector<uint32_t> kind;
  for (uint32_t label = 0; label < 9; ++label) {
    kind.push_back((1 + label) << ninja::kPhoneShift | (label % 5) << ninja::kKindShift | label % 3);
  }
  ninja::AlignOptions options{};
  options.max_states = 1000;
  options.max_labels = 10000;
  ninja::Items found;
  const bool whole = ninja::align_all(items, {kind.data(), 8}, options, found) == ninja::AlignEnd::kAligned;
  return bytes_of(found) + (whole ? "1" : "0");
}

std::string determinized(const ninja::Items& items) {
  ninja::DeterminizeBounds bounds;
  bounds.delta = 1.0f / 1024;
  bounds.max_mem = bounds.max_arcs = bounds.max_states = bounds.max_loop = -1;
  ninja::Items found;
  ninja::DeterminizedLattice last;
  const bool whole = ninja::determinize_pruned_all(items, 8.0, 0.5f, 0.0, bounds, found, last);
  return bytes_of(found) + (whole ? "1" : "0");
}

// Write a batch, and read it again.
std::string written(const ninja::Items& items, bool text) {
  ninja::Output output;
  std::vector<int64_t> begins;
  ninja::write_all(items, -1, text, begins, output);
  const std::string file(output.data(), static_cast<size_t>(output.size()));
  const fuzz::Bytes bytes(file, ninja::kSlack);
  ninja::Items lattices;
  for (ninja::Entry& entry : fuzz::parse_whole(bytes)) ninja::take_entry(entry, lattices);
  return file + bytes_of(lattices);
}

// Rescore lattices in one expander of this thread, with the model of all.
std::string rescored(const ninja::Items& items, const ninja::NgramModel& model) {
  ninja::SearchOptions options{};
  options.lm_scale = 1.0;
  options.acoustic_scale = 0.5;
  options.beam = options.first_pass_beam = 10.0;
  options.growth_ratio = 2.0;
  options.max_hyps = 4;
  options.max_arcs = 10000;
  options.eos = 1;
  options.per_arc = options.look_ahead = true;
  ninja::Expander expander(options, model.start);
  std::vector<std::vector<int32_t>> words;
  std::vector<std::vector<float>> extra;
  size_t left = 0;
  for (const ninja::Item& item : items) {
    auto& word = words.emplace_back(item.arcs.word, item.arcs.word + item.arcs.num_arcs);
    for (int32_t& each : word) each = each == 0 ? -1 : 1 + each % 4;
    extra.emplace_back(word.size(), 0.0f);
  }
  for (size_t place = 0; place < items.size(); ++place, ++left) {
    expander.add(items[place].arcs, words[place].data(), extra[place].data(), {});
  }
  std::string made;
  while (left > 0) {
    expander.gather();
    const ninja::Wave& wave = expander.wave();
    std::vector<int64_t> slots(wave.advance_slot.size());
    const auto makes = static_cast<int64_t>(slots.size());
    model.look_up(wave.advance_slot.data(), wave.advance_word.data(), makes, nullptr, slots.data());
    std::vector<int64_t> asked(wave.score_slot);
    for (int64_t& slot : asked) slot = slot < 0 ? slots[static_cast<size_t>(-1 - slot)] : slot;
    std::vector<float> logprob(asked.size());
    fuzz::expect(model.look_up(asked.data(), wave.score_word.data(), static_cast<int64_t>(asked.size()), logprob.data(),
                               nullptr) == -1,
                 "words are the model's");
    expander.scatter(slots.data(), logprob.data());
    for (const int32_t ticket : expander.ended()) {
      const ninja::Search& search = expander.search(ticket);
      made += std::to_string(ticket) + ":" + std::to_string(static_cast<int>(search.status())) + ":" +
              std::to_string(search.links().size()) + " ";
      for (const auto& link : search.links()) made += std::to_string(link.graph) + ",";
      expander.remove(ticket);
      --left;
    }
  }
  return made;
}

using Operation = std::function<std::string(const Shared&, const ninja::Items&, Exchange&)>;

// Pass results to other threads, and describe them.
std::string handed(ninja::Results results, Exchange& exchange) {
  std::string made = told(results);
  exchange.put(std::move(results.items));
  return made;
}

const std::vector<Operation> kOperations{
    [](const Shared&, const ninja::Items& items, Exchange& on) {
      return handed(ninja::prune_each(items, kScales, 4.0), on);
    },
    [](const Shared&, const ninja::Items& items, Exchange& on) { return handed(ninja::connect_each(items), on); },
    [](const Shared&, const ninja::Items& items, Exchange& on) {
      return handed(ninja::path_lattices(items, ninja::best_paths(items, kScales), false), on);
    },
    [](const Shared&, const ninja::Items& items, Exchange& on) {
      return handed(ninja::path_lattices(items, ninja::nbest_paths(items, 5, kScales), true), on);
    },
    [](const Shared&, const ninja::Items& items, Exchange& on) {
      return handed(ninja::push_each(items, true, true, 1.0), on);
    },
    [](const Shared&, const ninja::Items& items, Exchange& on) {
      return handed(ninja::minimize_each(items, true, true, 1.0, 1.0 / 1024), on);
    },
    [](const Shared&, const ninja::Items& items, Exchange&) {
      ninja::PathWords found;
      ninja::best_words_all(items, kScales, found);
      return bytes_of(found.word);
    },
    [](const Shared&, const ninja::Items& items, Exchange&) { return determinized(items); },
    [](const Shared&, const ninja::Items& items, Exchange&) { return aligned(items); },
    [](const Shared&, const ninja::Items& items, Exchange&) { return decoded(items); },
    [](const Shared&, const ninja::Items& items, Exchange&) { return measured(items); },
    [](const Shared&, const ninja::Items& items, Exchange&) { return written(items, false); },
    [](const Shared&, const ninja::Items& items, Exchange&) { return written(items, true); },
    [](const Shared& shared, const ninja::Items& items, Exchange&) { return rescored(items, shared.model); },
};

// Read the shared file ahead, to its end or not, and expect its lattices in order.
void read_ahead(const Shared& shared, Random& random, Exchange& exchange) {
  const int file = ::open(shared.path.c_str(), O_RDONLY);
  fuzz::expect(file >= 0, "the file can be opened");
  const auto size = static_cast<int64_t>(shared.archive.size());
  const int64_t chunk = 200 + static_cast<int64_t>(random() % 20000),
                ahead = 1 + static_cast<int64_t>(random() % 60000);
  const size_t most = random() % 2 ? shared.keys.size() : random() % shared.keys.size();
  ninja::FileReader reader(file, 0, size, nullptr, 0, chunk, ahead, 1 << 20);
  size_t place = 0;
  while (place <= most) {
    ninja::EntryBatch batch;
    const auto state = reader.next(batch, static_cast<int>(random() % 3));
    if (state == ninja::FileReader::kWait) continue;
    if (state == ninja::FileReader::kEnd) {
      fuzz::expect(place == shared.keys.size(), "the reader gives all there is");
      break;
    }
    fuzz::expect(state == ninja::FileReader::kBatch, "the file is read");
    ninja::Items items;
    for (ninja::Entry& entry : batch.entries) {
      fuzz::expect(entry.fault.kind == ninja::Fault::kNone && entry.key == shared.keys[place++], "entries in order");
      ninja::take_entry(entry, items);
    }
    exchange.put(std::move(items));
    nap(random);
  }
}

ninja::Items drawn(Random& random, std::vector<ninja::LatticeArrays>& arrays) {
  ninja::Items items;
  fuzz::Shape shape;
  shape.wild = shape.dead_ends = false;
  for (int lattice = 0; lattice < kLattices; ++lattice) {
    std::vector<uint8_t> bytes(4000);
    for (uint8_t& each : bytes) each = static_cast<uint8_t>(random() >> 8);
    fuzz::Draw draw(bytes.data(), bytes.size());
    arrays.push_back(fuzz::draw_lattice(draw, shape));
    ninja::Item& item = items.emplace_back();
    item.key = "lattice" + std::to_string(arrays.size());
    ninja::LatticeArrays copy = arrays.back();
    ninja::adopt(std::move(copy), item);
  }
  return items;
}

}  // namespace

int main(int count, char** given) {
  fuzz::expect(count >= 3, "usage: threads COUNT SECONDS [SEED]");
  const int num_threads = std::atoi(given[1]);
  const double seconds = std::atof(given[2]);
  const auto seed = static_cast<unsigned>(count > 3 ? std::atoi(given[3]) : 1);
  Random random(seed);
  Shared shared;
  std::vector<ninja::LatticeArrays> arrays;
  for (int batch = 0; batch < kBatches; ++batch) shared.batches.push_back(drawn(random, arrays));
  shared.model = fuzz::read_model(kArpa);
  ninja::Output output;
  std::vector<int64_t> begins;
  for (const ninja::Items& items : shared.batches) {
    ninja::write_all(items, 1, false, begins, output);
    for (const ninja::Item& item : items) shared.keys.push_back(item.key);
  }
  shared.archive.assign(output.data(), static_cast<size_t>(output.size()));
  std::string path = "/tmp/threadsXXXXXX";
  const int file = ::mkstemp(path.data());
  fuzz::expect(file >= 0 && ::write(file, shared.archive.data(), shared.archive.size()) ==
                                static_cast<ssize_t>(shared.archive.size()),
               "the file can be written");
  ::close(file);
  shared.path = path;

  Exchange exchange;
  std::vector<std::vector<std::string>> expected(kOperations.size());
  std::atomic<int64_t> done{0};
  for (size_t operation = 0; operation < kOperations.size(); ++operation) {
    for (const ninja::Items& items : shared.batches) {
      expected[operation].push_back(kOperations[operation](shared, items, exchange));
    }
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  const auto work = [&](unsigned number) {
    Random own(seed * 1000 + number);
    while (std::chrono::steady_clock::now() < until) {
      nap(own);
      const size_t operation = own() % (kOperations.size() + 2), batch = own() % kBatches;
      if (operation == kOperations.size()) {
        read_ahead(shared, own, exchange);
      } else if (operation > kOperations.size()) {
        const ninja::Items others = exchange.take();  // results of another thread
        kOperations[own() % kOperations.size()](shared, others, exchange);
      } else {
        fuzz::expect(kOperations[operation](shared, shared.batches[batch], exchange) == expected[operation][batch],
                     "threads make what one makes");
      }
      ++done;
    }
  };
  std::vector<std::thread> threads;
  for (int number = 0; number < num_threads; ++number) threads.emplace_back(work, static_cast<unsigned>(number + 1));
  for (std::thread& thread : threads) thread.join();
  ::unlink(path.c_str());
  std::printf("%d threads: %lld operations\n", num_threads, static_cast<long long>(done.load()));
  return 0;
}
