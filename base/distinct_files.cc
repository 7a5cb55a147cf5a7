// SPDX-License-Identifier: Apache-2.0
#include "base/distinct_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/file.h"
#include "base/report_file.h"
#include "base/text.h"

namespace hvdray {
namespace {

bool AreOne(const NamedFile& a, const NamedFile& b) {
  return (!a.real.empty() && a.real == b.real) || (a.inode && a.inode == b.inode);
}

/// To a descriptor, which takes several writers.
bool IsStream(const NamedFile& file) { return file.real.empty(); }

Status Refusal(const NamedFile& first, const NamedFile& output) {
  return {ErrorCode::kUsage,
          fmt::format("{} and {} name the same file '{}'", first.origin, output.origin,
                      ShownText(output.path, 200)),
          "give each its own file"};
}

}  // namespace

NamedFile LookAtFile(std::string origin, std::string path) {
  NamedFile file{std::move(origin), std::move(path), {}, {}};
  file.real = FileBehind(file.path);
  const int descriptor = DescriptorNamedBy(file.path);
  struct stat info {};
  const int looked =
      descriptor >= 0 ? ::fstat(descriptor, &info) : ::stat(file.path.c_str(), &info);
  if (looked == 0 && S_ISREG(info.st_mode)) file.inode.emplace(info.st_dev, info.st_ino);
  return file;
}

Status CheckDistinct(std::span<const NamedFile> outputs, std::span<const NamedFile> inputs) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    const auto is_it = [&output](const NamedFile& other) { return AreOne(other, *output); };
    // What is not there can't be lost: a worker may follow the events of its own job.
    const auto is_read = [&](const NamedFile& input) {
      return input.inode && is_it(input) && !(IsStream(input) && IsStream(*output));
    };
    const auto input = std::find_if(inputs.begin(), inputs.end(), is_read);
    if (input != inputs.end()) return Refusal(*input, *output);
    const auto other = std::find_if(outputs.begin(), output, is_it);
    if (other != output && !(IsStream(*other) && IsStream(*output))) {
      return Refusal(*other, *output);
    }
  }
  return {};
}

}  // namespace hvdray
