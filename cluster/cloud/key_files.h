// SPDX-License-Identifier: Apache-2.0
// The private keys that `up` has written to the user's ~/.ssh, each NAME.pem with a mark beside it.
//
// What always holds: a key is whole and its user's alone from the first moment, and replaces no
// file; HasWritten() is true only for a file that is, byte for byte, what Write() has written.
#ifndef HVDRAY_CLUSTER_CLOUD_KEY_FILES_H_
#define HVDRAY_CLUSTER_CLOUD_KEY_FILES_H_

#include <set>
#include <string>
#include <utility>

#include "base/status.h"

namespace hvdray {

/// `name`: of a key pair. Threads: any; blocks as long as the file system does.
class KeyFiles {
 public:
  explicit KeyFiles(const std::string& home) : directory_(home + "/.ssh") {}

  /// Creates the directory, if it is not there. Errors: kFileUnwritable.
  Status MakeDirectory() const;
  /// Of all files in it; empty: it can't be read.
  std::set<std::string> Names() const;
  std::string Path(const std::string& name) const { return directory_ + "/" + name + ".pem"; }
  /// The file is the one that Write() wrote on this machine, unchanged. What a cloud says proves
  /// nothing: whoever may tag a key pair could have a file of ours removed.
  bool HasWritten(const std::string& name) const;
  /// Refuses to replace a file. Errors: kFileUnwritable, after which no mark is left.
  Status Write(const std::string& name, const std::string& key) const;
  void Remove(const std::string& name) const;

 private:
  std::string MarkPath(const std::string& name) const { return Path(name) + ".hvdray"; }

  const std::string directory_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CLOUD_KEY_FILES_H_
