// Runs a fuzz target without a fuzzer, in every build: each file of a corpus, and inputs that a
// seeded generator makes of them, in the same order every time.
//   PROGRAM FOLDER SECONDS          for so long
//   PROGRAM FOLDER --input NUMBER   that one, which a crash named
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/prng.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

std::vector<Bytes> read_corpus(const char* folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> corpus;
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

// A few bytes changed, taken out, put in, or the tail of another input.
Bytes mutate(const std::vector<Bytes>& corpus, mccl::Prng& prng) {
  Bytes bytes = corpus[prng.below(corpus.size())];
  for (uint64_t changes = 1 + prng.below(8); changes > 0; --changes) {
    const auto at = static_cast<long>(prng.below(bytes.size() + 1));
    const Bytes& other = corpus[prng.below(corpus.size())];
    const auto from = static_cast<long>(prng.below(other.size() + 1));
    switch (prng.below(4)) {
      case 0:
        if (at < static_cast<long>(bytes.size()))
          bytes[static_cast<size_t>(at)] = static_cast<uint8_t>(prng.next());
        break;
      case 1:
        bytes.insert(bytes.begin() + at, static_cast<uint8_t>(prng.next()));
        break;
      case 2:
        bytes.erase(bytes.begin() + at,
                    bytes.begin() + std::min(at + 3, static_cast<long>(bytes.size())));
        break;
      default:
        bytes.resize(static_cast<size_t>(at));
        bytes.insert(bytes.end(), other.begin() + from, other.end());
    }
  }
  return bytes;
}

// What a handler of signals can print: the number of the input that runs.
std::array<char, 64> running = {};

void name_input(uint64_t number) {
  std::snprintf(running.data(), running.size(), "crashed in --input %llu\n",
                static_cast<unsigned long long>(number));
}

void tell_of_crash(int signal_number) {
  const size_t size = std::char_traits<char>::length(running.data());
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, running.data(), size);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void run_input(const std::vector<Bytes>& corpus, uint64_t number) {
  name_input(number);
  mccl::Prng prng(number);
  const Bytes bytes = mutate(corpus, prng);
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

}  // namespace

int main(int argument_count, char** arguments) {
  using Clock = std::chrono::steady_clock;
  if (argument_count < 3 || argument_count > 4) return 2;
  const std::vector<Bytes> corpus = read_corpus(arguments[1]);
  if (corpus.empty()) return 2;
  if (argument_count == 4) {
    run_input(corpus, std::strtoull(arguments[3], nullptr, 10));
    return 0;
  }
  for (const int signal_number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    signal(signal_number, tell_of_crash);
  for (const Bytes& bytes : corpus) LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  const Clock::time_point end = Clock::now() + std::chrono::seconds(std::atoi(arguments[2]));
  uint64_t number = 0;
  while (Clock::now() < end) run_input(corpus, ++number);
  std::printf("%zu files, %llu inputs made of them\n", corpus.size(),
              static_cast<unsigned long long>(number));
  return 0;
}
