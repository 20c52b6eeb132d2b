// Reads and parses a plain file in a thread that never takes the GIL.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "formats/kaldi_table.hpp"

namespace ninja {

// Entries in order, with the bytes of their keys.
struct EntryBatch {
  std::vector<Entry> entries;
  std::vector<char> keys;  // `Entry::key` points into this vector; a string might store its characters inline
  int64_t size = 0;        // number of bytes of the file

  EntryBatch() = default;
  EntryBatch(EntryBatch&& other) noexcept { *this = std::move(other); }
  EntryBatch& operator=(EntryBatch&& other) noexcept {
    entries.swap(other.entries);
    keys.swap(other.keys);
    std::swap(size, other.size);
    return *this;
  }
  ~EntryBatch() {
    for (Entry& entry : entries) std::free(entry.block.memory);
  }
};

class FileReader {
 public:
  enum State { kBatch, kWait, kEnd, kFailed, kTooLarge };

  // Args: an open file, which is closed at the end; its byte range; mask of valid word ids, or null if all are valid;
  // number of bytes per read; maximum number of bytes read ahead (or one batch); maximum number of bytes of an entry.
  FileReader(int file, int64_t begin, int64_t end, const uint8_t* known, int64_t num_known, int64_t chunk,
             int64_t ahead, int64_t largest)
      : file_(file), stop_(end), chunk_(chunk), ahead_(ahead), largest_(largest), position_(begin) {
    parser_.known = known;
    parser_.num_known = num_known;
    thread_ = std::thread([this] { run(); });
  }

  ~FileReader() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopped_ = true;
    }
    space_.notify_one();
    thread_.join();
    ::close(file_);
  }

  // Wait for the next batch; returns kWait after a timeout.
  State next(EntryBatch& batch, int milliseconds) {
    std::unique_lock<std::mutex> lock(mutex_);
    ready_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                    [this] { return !batches_.empty() || end_ != kWait; });
    if (batches_.empty()) return end_;
    batch = std::move(batches_.front());
    batches_.pop_front();
    waiting_ -= batch.size;
    lock.unlock();
    space_.notify_one();
    return kBatch;
  }

  // A process that was forked after the file was opened has no thread, and the lock may never be released, so the
  // reader is leaked there.
  bool was_forked() const { return ::getpid() != process_; }
  static void end(FileReader* reader) {
    if (reader != nullptr && reader->was_forked()) {
      ::close(reader->file_);
    } else {
      delete reader;
    }
  }

  int error_number() const { return error_number_; }  // after kFailed
  int64_t position() const { return position_; }      // after kTooLarge: where the entry begins

 private:
  void run() {
    State end = kFailed;
    try {
      end = read_all();
    } catch (const std::exception&) {  // out of memory
      error_number_ = ENOMEM;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      end_ = end;
    }
    ready_.notify_one();
  }

  State read_all() {
    Pool<char> window;
    int64_t pending = 0;  // number of bytes of an incomplete entry at the beginning of the window
    while (true) {
      if (pending > largest_) return kTooLarge;
      const int64_t space = std::max(chunk_, pending);
      char* begin = window.reserve(pending + space + kSlack, pending);
      const int64_t wanted = std::min(space, stop_ - position_ - pending);
      ssize_t count;
      do { count = ::pread(file_, begin + pending, wanted, position_ + pending); } while (count < 0 && errno == EINTR);
      if (count < 0) {
        error_number_ = errno;
        return kFailed;
      }
      EntryBatch batch;
      const int64_t end = pending + count;
      const int64_t behind = count > 0 ? std::max<int64_t>(1, file_size() - position_ - end) : 0;
      batch.size = parser_.parse({begin, begin + end, position_, behind}, batch.entries);
      keep_keys(batch);
      pending = end - batch.size;
      std::memmove(begin, begin + batch.size, pending);
      position_ += batch.size;
      const bool last = count == 0 || parser_.broken;
      if (!batch.entries.empty() && !hand_over(std::move(batch))) return kEnd;
      if (last) return kEnd;
    }
  }

  int64_t file_size() const {
    struct stat status;
    return ::fstat(file_, &status) == 0 ? std::min<int64_t>(status.st_size, stop_) : 0;
  }

  static void keep_keys(EntryBatch& batch) {
    size_t size = 0;
    for (const Entry& entry : batch.entries) size += entry.key.size();
    batch.keys.reserve(size);  // so that keys do not move
    for (Entry& entry : batch.entries) {
      const char* key = batch.keys.data() + batch.keys.size();
      batch.keys.insert(batch.keys.end(), entry.key.begin(), entry.key.end());
      entry.key = {key, entry.key.size()};
    }
  }

  // Returns false if the reader was closed.
  bool hand_over(EntryBatch&& batch) {
    std::unique_lock<std::mutex> lock(mutex_);
    space_.wait(lock, [&] { return stopped_ || batches_.empty() || waiting_ + batch.size <= ahead_; });
    if (stopped_) return false;
    waiting_ += batch.size;
    batches_.push_back(std::move(batch));
    lock.unlock();
    ready_.notify_one();
    return true;
  }

  const pid_t process_ = ::getpid();
  int file_;
  int64_t stop_, chunk_, ahead_, largest_;
  int64_t position_;  // position of the beginning of the window in the file
  TableParser parser_;
  int error_number_ = 0;

  std::mutex mutex_;
  std::condition_variable ready_, space_;
  std::deque<EntryBatch> batches_;
  int64_t waiting_ = 0;  // number of bytes of the pending batches
  bool stopped_ = false;
  State end_ = kWait;  // set when the thread ends
  std::thread thread_;
};

}  // namespace ninja
