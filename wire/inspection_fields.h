// SPDX-License-Identifier: Apache-2.0
// The JSON of the messages of `hvdray check`. Internal to the codec: users include message_codec.h.
#ifndef HVDRAY_WIRE_INSPECTION_FIELDS_H_
#define HVDRAY_WIRE_INSPECTION_FIELDS_H_

#include "base/json.h"
#include "wire/field_reader.h"
#include "wire/inspection.h"

namespace hvdray::wire {

inline constexpr int32_t kMaxErrno = 4095;

Json ToJson(const Inspection& inspection);

/// `read` is at the top object and `status` is its status.
void ReadInspection(FieldReader& read, Status& status, Inspection& inspection);

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_INSPECTION_FIELDS_H_
