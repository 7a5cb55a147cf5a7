// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer: one file, or each of a corpus directory, as it is, cut
// short, and with seeded damage. Any crash fails it, and so does a lost corpus. Usage: X_fuzzer
// PATH [SEED]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kDamagedPerFile = 100;
constexpr size_t kCutsPerFile = 64;

void RunOne(const std::string& input) {
  // A buffer of exactly that size, so that a sanitizer sees reads past its end.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  (void)LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::string Damage(std::string input, const std::vector<std::string>& corpus,
                   std::mt19937_64& random) {
  const auto below = [&random](size_t limit) { return limit == 0 ? 0 : random() % limit; };
  for (size_t edits = 1 + below(4); edits > 0; --edits) {
    const size_t at = below(input.size());
    switch (below(5)) {
      case 0:
        if (!input.empty()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 1:
        if (!input.empty()) input[at] = static_cast<char>(random());
        break;
      case 2:
        input.insert(at, 1 + below(8), static_cast<char>(random()));
        break;
      case 3:
        input.erase(at, 1 + below(8));
        break;
      default:
        const std::string& other = corpus[below(corpus.size())];
        input = input.substr(0, at) + other.substr(below(other.size()));
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: %s PATH [SEED]\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[1], error)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  if (std::filesystem::is_regular_file(argv[1])) paths.push_back(argv[1]);
  if (paths.empty()) {
    std::fprintf(stderr, "%s: no inputs: is the corpus lost?\n", argv[1]);
    return 1;
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  const uint64_t seed = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 1;
  std::mt19937_64 random(seed);
  size_t runs = 0;
  for (size_t i = 0; i < corpus.size(); ++i) {
    std::printf("%s (seed %llu)\n", paths[i].filename().c_str(),
                static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    RunOne(corpus[i]);
    const size_t step = corpus[i].size() / kCutsPerFile + 1;
    for (size_t cut = 0; cut < corpus[i].size(); cut += step, ++runs) {
      RunOne(corpus[i].substr(0, cut));
    }
    for (int n = 0; n < kDamagedPerFile; ++n, ++runs) RunOne(Damage(corpus[i], corpus, random));
  }
  std::printf("%zu files, %zu variations\n", corpus.size(), runs);
  return 0;
}
