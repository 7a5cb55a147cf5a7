#include "launcher/ray/ray_live_file.h"

#include <utility>

namespace hvdray {

RayLiveFile::RayLiveFile(Loop& loop, BlockingPool& pool, RayAccess access,
                         const std::string& job_id, RayWantedFile file)
    : file_(std::move(file)),
      stream_(
          loop, pool, std::move(access), job_id, file_.suffix,
          {.on_bytes = [this](const std::string& bytes) { OnBytes(bytes); }, .on_rest = nullptr}) {
  Result<UniqueFd> out = OpenForWriting(file_.path);
  if (out.ok()) {
    file_.out = std::make_shared<UniqueFd>(std::move(out).value());
  } else {
    lost_ = std::move(out).status();
  }
}

void RayLiveFile::Follow(const std::string& node) {
  if (lost_.ok()) stream_.Follow(node);
}

void RayLiveFile::OnBytes(const std::string& bytes) {
  if (!lost_.ok()) return;
  lost_ = WriteAll(file_.out->get(), bytes).WithContext(file_.path);
  if (!lost_.ok()) lost_ = std::move(lost_).WithCode(ErrorCode::kOutputLost);
}

Result<RayWantedFile> RayLiveFile::End() {
  stream_.Stop();
  file_.begin = stream_.offset();
  if (!lost_.ok()) return lost_;
  return file_;
}

}  // namespace hvdray
