#include "launcher/report/record_places.h"

#include <fmt/format.h>

#include <utility>

#include "launcher/job/placement.h"

namespace hvdray {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kHeadBytes = 5;
constexpr size_t kPlaceBytes = 8;

void Put(std::string& text, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) text += static_cast<char>((value >> shift) & 0xff);
}

uint32_t Take32(ByteView& bytes) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  bytes.remove_prefix(4);
  return value;
}

Status Refused(std::string_view why) {
  return {ErrorCode::kProtocolError, fmt::format("places in the job's stream: {}", why)};
}

}  // namespace

std::string FormatPlaces(const PlacesOfRecord& record) {
  std::string text(1, static_cast<char>(record.stream));
  Put(text, static_cast<uint32_t>(record.np));
  for (const RecordPlace& place : record.places) {
    Put(text, static_cast<uint32_t>(place.rank));
    Put(text, place.is_emptied ? kNone : static_cast<uint32_t>(place.length));
  }
  return text;
}

Result<PlacesOfRecord> ParsePlaces(ByteView bytes) {
  if (bytes.size() < kHeadBytes || (bytes.size() - kHeadBytes) % kPlaceBytes != 0) {
    return Refused("their length");
  }
  PlacesOfRecord record;
  record.stream = static_cast<RecordKind>(bytes.front());
  if (record.stream != RecordKind::kStdout && record.stream != RecordKind::kStderr) {
    return Refused("neither stdout nor stderr");
  }
  bytes.remove_prefix(1);
  const uint32_t np = Take32(bytes);
  if (np < 1 || np > static_cast<uint32_t>(kMaxRanks)) return Refused("the number of workers");
  record.np = static_cast<int>(np);
  record.places.reserve(bytes.size() / kPlaceBytes);
  while (!bytes.empty()) {
    RecordPlace place;
    const uint32_t rank = Take32(bytes);
    const uint32_t length = Take32(bytes);
    place.is_emptied = length == kNone;
    place.length = place.is_emptied ? 0 : length;
    if (rank != kNone) {
      if (rank >= static_cast<uint32_t>(kMaxRanks)) return Refused("a rank that nobody has");
      place.rank = static_cast<int>(rank);
    } else if (place.is_emptied) {
      return Refused("nobody's file is emptied");
    }
    record.places.push_back(place);
  }
  return record;
}

void RecordPlaces::Add(int rank, size_t begin, size_t end) {
  if (begin == end) return;
  std::vector<RecordPlace>& places = record_.places;
  if (begin > end_) places.push_back({RecordPlace::kNobody, begin - end_, false});
  end_ = end;
  if (!places.empty() && places.back().rank == rank && !places.back().is_emptied) {
    places.back().length += end - begin;
  } else {
    places.push_back({rank, end - begin, false});
  }
}

void RecordPlaces::Empty(int rank) { record_.places.push_back({rank, 0, true}); }

std::string RecordPlaces::Take() {
  end_ = 0;
  if (record_.places.empty()) return {};
  std::string text = FormatPlaces(record_);
  record_.places.clear();
  return text;
}

}  // namespace hvdray
