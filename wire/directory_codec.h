// SPDX-License-Identifier: Apache-2.0
// The bytes of the messages of directory.h. Internal to the codec: users include message_codec.h.
#ifndef HVDRAY_WIRE_DIRECTORY_CODEC_H_
#define HVDRAY_WIRE_DIRECTORY_CODEC_H_

#include <string>

#include "base/result.h"
#include "wire/directory.h"
#include "wire/field_reader.h"
#include "wire/message_fields.h"

namespace hvdray::wire {

/// The JSON: all that is not raw.
std::string JsonOf(const DirectoryList& list);
std::string JsonOf(const DirectoryWanted& wanted);
std::string JsonOf(const File& file);
std::string JsonOf(const FileTaken& taken);
std::string JsonOf(const DirectoryProblem& problem);

/// `json`: what `read` is at.
void ReadFields(FieldReader& read, const Json& json, DirectorySizes& sizes, DirectoryList& list);
void ReadFields(FieldReader& read, const Json& json, DirectorySizes& sizes,
                DirectoryWanted& wanted);
void ReadFields(FieldReader& read, const Json& json, DirectorySizes& sizes, File& file);
void ReadFields(FieldReader& read, const Json& json, DirectorySizes& sizes, FileTaken& taken);
void ReadFields(FieldReader& read, const Json& json, DirectorySizes& sizes,
                DirectoryProblem& problem);

/// Appends the raw part. Errors: kInternal for what the peer would refuse.
Status PackRaw(const DirectoryList& list, std::string& raw);
Status PackRaw(const DirectoryWanted& wanted, std::string& raw);
Status PackRaw(const File& file, std::string& raw);
Status PackRaw(const DirectoryProblem& problem, std::string& raw);

/// Errors: kProtocolError.
Status UnpackRaw(const DirectorySizes& sizes, ByteView raw, DirectoryList& list);
Status UnpackRaw(const DirectorySizes& sizes, ByteView raw, DirectoryWanted& wanted);
Status UnpackRaw(const DirectorySizes& sizes, ByteView raw, File& file);
Status UnpackRaw(const DirectorySizes& sizes, ByteView raw, DirectoryProblem& problem);

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_DIRECTORY_CODEC_H_
