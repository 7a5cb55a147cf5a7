// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/base64.h"
#include "cluster/ssh/ssh_agent.h"
#include "cluster/ssh/ssh_identity.h"
#include "cluster/ssh/wire_text.h"

namespace {

void Require(bool is_true) {
  if (!is_true) std::abort();
}

void CheckKey(const std::string& text) {
  const auto facts = hvdray::DescribePrivateKey(text);
  if (!facts.ok()) {
    Require(facts.status().code() == hvdray::ErrorCode::kSpecInvalid);
    Require(facts.status().message().find('\n') == std::string::npos);
    return;
  }
  if (facts->public_blob.empty()) return;
  Require(facts->type == hvdray::ToSshKeyType(hvdray::AlgorithmOfBlob(facts->public_blob)));
}

/// Base64 hides the fields from whoever changes bytes: the same input once more below it.
std::string InOpenSshsForm(const std::string& bytes) {
  return "-----BEGIN OPENSSH PRIVATE KEY-----\n" +
         hvdray::EncodeBase64(std::string("openssh-key-v1\0", 15) + bytes) +
         "\n-----END OPENSSH PRIVATE KEY-----\n";
}

/// No field reaches beyond the bytes, and none is made up.
void CheckFields(const std::string& bytes) {
  hvdray::SshFields fields(bytes);
  size_t taken = 0;
  while (const auto field = fields.String()) taken += 4 + field->size();
  Require(taken + fields.rest().size() == bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  CheckKey(text);
  CheckKey(InOpenSshsForm(text));
  CheckFields(text);
  const std::string blob = hvdray::BlobOfPublicKeyLine(text);
  Require(blob.empty() || text.starts_with(hvdray::AlgorithmOfBlob(blob)));
  // The agent's answers are of the same make.
  const auto keys = hvdray::ParseAgentKeys(text);
  size_t bytes = 0;
  if (keys.ok()) {
    for (const hvdray::SshAgentKey& key : *keys) bytes += 8 + key.blob.size() + key.comment.size();
  }
  Require(bytes <= size);
  const auto signature = hvdray::ParseAgentSignature(text);
  Require(!signature.ok() || signature->size() < size);
  return 0;
}
