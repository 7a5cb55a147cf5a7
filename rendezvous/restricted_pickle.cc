// SPDX-License-Identifier: Apache-2.0
// Turns a passive pickle into typed addresses: accepts one shape and checks every field.
#include "rendezvous/restricted_pickle.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rendezvous/pickle_machine.h"

namespace hvdray {
namespace {

Status WrongShape(std::string_view what) {
  return {ErrorCode::kKvRejected, fmt::format("worker_addresses: {}", what)};
}

// 15 bytes are the kernel's limit (IFNAMSIZ); the other rules keep the public text unambiguous.
bool IsInterfaceName(std::string_view name) {
  return !name.empty() && name.size() <= 15 && std::all_of(name.begin(), name.end(), [](char c) {
    return c > 0x20 && c < 0x7F && c != '/';
  });
}

bool IsIpv4(std::string_view text) {
  if (text.size() > 15 || text.find('\0') != std::string_view::npos) return false;
  in_addr binary{};
  return inet_pton(AF_INET, std::string(text).c_str(), &binary) == 1;
}

Result<WorkerAddresses::Endpoint> ReadEndpoint(const PickleMachine& machine,
                                               const PickleNode& pair) {
  if (pair.kind != PickleNode::Kind::kTuple || pair.items.size() != 2) {
    return WrongShape("an address is not a pair");
  }
  const PickleNode& ip = machine.At(pair.items[0]);
  const PickleNode& port = machine.At(pair.items[1]);
  if (ip.kind != PickleNode::Kind::kText || port.kind != PickleNode::Kind::kNumber) {
    return WrongShape("an address is not text and number");
  }
  if (!IsIpv4(ip.text)) return WrongShape("an address is not IPv4");
  if (port.number < 1 || port.number > 65535) return WrongShape("a port is out of range");
  return WorkerAddresses::Endpoint{std::string(ip.text), static_cast<uint16_t>(port.number)};
}

Result<WorkerAddresses::Interface> ReadInterface(const PickleMachine& machine,
                                                 const PickleNode& name, const PickleNode& list) {
  if (name.kind != PickleNode::Kind::kText || !IsInterfaceName(name.text)) {
    return WrongShape("an interface has no usable name");
  }
  if (list.kind != PickleNode::Kind::kList)
    return WrongShape("an interface has no list of addresses");
  WorkerAddresses::Interface interface {
    std::string(name.text), {}
  };
  for (const uint32_t item : list.items) {
    HVDRAY_ASSIGN_OR_RETURN(auto endpoint, ReadEndpoint(machine, machine.At(item)));
    interface.endpoints.push_back(std::move(endpoint));
  }
  return interface;
}

}  // namespace

Result<WorkerAddresses> ReadWorkerAddresses(ByteView pickle) {
  PickleMachine machine(pickle);
  if (!machine.Run()) return machine.Refused();
  const PickleNode& root = machine.Root();
  if (root.kind != PickleNode::Kind::kTuple || root.items.size() != 2)
    return WrongShape("not a pair");
  const PickleNode& interfaces = machine.At(root.items[0]);
  const PickleNode& key = machine.At(root.items[1]);
  WorkerAddresses addresses;
  if (key.kind != PickleNode::Kind::kBytes || key.text.size() != addresses.key.size()) {
    return WrongShape("the key is not 32 bytes");
  }
  std::copy(key.text.begin(), key.text.end(), addresses.key.begin());
  if (interfaces.kind != PickleNode::Kind::kDict || interfaces.items.empty()) {
    return WrongShape("no dictionary of interfaces");
  }
  if (interfaces.items.size() / 2 > kMaxWorkerInterfaces) return WrongShape("too many interfaces");
  size_t endpoint_count = 0;
  for (size_t i = 0; i < interfaces.items.size(); i += 2) {
    const PickleNode& list = machine.At(interfaces.items[i + 1]);
    endpoint_count += list.items.size();
    if (endpoint_count > kMaxWorkerEndpoints) return WrongShape("too many addresses");
    HVDRAY_ASSIGN_OR_RETURN(auto interface,
                            ReadInterface(machine, machine.At(interfaces.items[i]), list));
    for (const auto& other : addresses.interfaces) {
      if (other.name == interface.name) return WrongShape("duplicate interface");
    }
    addresses.interfaces.push_back(std::move(interface));
  }
  return addresses;
}

std::string ToPublicText(const WorkerAddresses& addresses) {
  std::string text;
  for (const auto& interface : addresses.interfaces) {
    text += interface.name;
    for (const auto& endpoint : interface.endpoints) {
      text += fmt::format(" {}:{}", endpoint.ip, endpoint.port);
    }
    text += '\n';
  }
  return text;
}

}  // namespace hvdray
