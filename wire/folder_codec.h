// The bytes of the messages of folder.h. Internal to the codec: users include message_codec.h.
#ifndef HVDRAY_WIRE_FOLDER_CODEC_H_
#define HVDRAY_WIRE_FOLDER_CODEC_H_

#include <string>

#include "base/result.h"
#include "wire/field_reader.h"
#include "wire/folder.h"
#include "wire/message_fields.h"

namespace hvdray::wire {

/// The JSON: all that is not raw.
std::string JsonOf(const FolderList& list);
std::string JsonOf(const FolderWanted& wanted);
std::string JsonOf(const File& file);
std::string JsonOf(const FileTaken& taken);
std::string JsonOf(const FolderProblem& problem);

/// `json`: what `read` is at.
void ReadFields(FieldReader& read, const Json& json, FolderSizes& sizes, FolderList& list);
void ReadFields(FieldReader& read, const Json& json, FolderSizes& sizes, FolderWanted& wanted);
void ReadFields(FieldReader& read, const Json& json, FolderSizes& sizes, File& file);
void ReadFields(FieldReader& read, const Json& json, FolderSizes& sizes, FileTaken& taken);
void ReadFields(FieldReader& read, const Json& json, FolderSizes& sizes, FolderProblem& problem);

/// Appends the raw part. Errors: kInternal for what the peer would refuse.
Status PackRaw(const FolderList& list, std::string& raw);
Status PackRaw(const FolderWanted& wanted, std::string& raw);
Status PackRaw(const File& file, std::string& raw);
Status PackRaw(const FolderProblem& problem, std::string& raw);

/// Errors: kProtocolError.
Status UnpackRaw(const FolderSizes& sizes, ByteView raw, FolderList& list);
Status UnpackRaw(const FolderSizes& sizes, ByteView raw, FolderWanted& wanted);
Status UnpackRaw(const FolderSizes& sizes, ByteView raw, File& file);
Status UnpackRaw(const FolderSizes& sizes, ByteView raw, FolderProblem& problem);

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_FOLDER_CODEC_H_
