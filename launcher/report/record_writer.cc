// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/record_writer.h"

#include <algorithm>
#include <utility>

namespace hvdray {

RecordWriter::RecordWriter(TimePoint began, std::unique_ptr<LineFile> file)
    : began_(began), file_(std::move(file)) {}

Result<std::unique_ptr<RecordWriter>> RecordWriter::Open(Loop& loop, RecordOptions options) {
  HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<LineFile> file,
                          LineFile::Open(loop, {.option = std::move(options.option),
                                                .path = std::move(options.path),
                                                .on_damaged = std::move(options.on_damaged)}));
  file->Write(EncodeHeader(options.header));
  return std::unique_ptr<RecordWriter>(new RecordWriter(options.began, std::move(file)));
}

void RecordWriter::OnEvent(const ElasticEvent& event, TimePoint now) {
  if (has_ended_) return;
  file_->Write(EncodeEvent(event, Since(now)));
}

void RecordWriter::OnEnd(const Verdict& verdict, const ElasticSnapshot& snapshot, TimePoint now) {
  if (has_ended_) return;
  has_ended_ = true;
  file_->Write(EncodeEnd(EndOf(verdict, snapshot, Since(now))));
}

// As in the driver, a time before the last one counts as the last one.
Duration RecordWriter::Since(TimePoint now) {
  last_ = std::max(last_, Duration(now - began_));
  return last_;
}

}  // namespace hvdray
