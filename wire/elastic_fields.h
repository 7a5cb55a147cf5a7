// SPDX-License-Identifier: Apache-2.0
// The JSON of the messages of elastic.h. Internal to the codec: users include message_codec.h.
#ifndef HVDRAY_WIRE_ELASTIC_FIELDS_H_
#define HVDRAY_WIRE_ELASTIC_FIELDS_H_

#include <string>

#include "wire/elastic.h"
#include "wire/field_reader.h"

namespace hvdray::wire {

std::string JsonOf(const BreakConnections& order);
std::string JsonOf(const ConnectionsBroken& result);
std::string JsonOf(const Notify& notice);
std::string JsonOf(const HostLeaving& leaving);
std::string JsonOf(const WorkerArrived& arrived);
std::string JsonOf(const StopWorkers& stop);

void ReadFields(FieldReader& read, BreakConnections& order);
void ReadFields(FieldReader& read, ConnectionsBroken& result);
void ReadFields(FieldReader& read, Notify& notice);
void ReadFields(FieldReader& read, HostLeaving& leaving);
void ReadFields(FieldReader& read, WorkerArrived& arrived);
void ReadFields(FieldReader& read, StopWorkers& stop);

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_ELASTIC_FIELDS_H_
