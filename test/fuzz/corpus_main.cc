// Runs a fuzz target without a fuzzer, in every build: each file of a corpus, and inputs that a
// seeded generator makes of them. Usage: PROGRAM FOLDER COUNT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
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

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 3) return 2;
  const std::vector<Bytes> corpus = read_corpus(arguments[1]);
  if (corpus.empty()) return 2;
  for (const Bytes& bytes : corpus) LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  mccl::Prng prng(1);
  for (int count = std::atoi(arguments[2]); count > 0; --count) {
    const Bytes bytes = mutate(corpus, prng);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  return 0;
}
