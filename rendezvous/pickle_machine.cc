// SPDX-License-Identifier: Apache-2.0
// The accepted opcodes and their effects. Checks sizes before it consumes input.
#include "rendezvous/pickle_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hvdray {
namespace {

// Opcode bytes, named as Python's pickletools names them.
enum Opcode : uint8_t {
  kMark = 0x28,
  kEmptyTuple = 0x29,
  kStop = 0x2e,
  kBinBytes = 0x42,
  kShortBinBytes = 0x43,
  kBinInt = 0x4a,
  kBinInt1 = 0x4b,
  kBinInt2 = 0x4d,
  kBinUnicode = 0x58,
  kEmptyList = 0x5d,
  kAppend = 0x61,
  kBuild = 0x62,
  kGlobal = 0x63,
  kAppends = 0x65,
  kBinGet = 0x68,
  kLongBinGet = 0x6a,
  kBinPut = 0x71,
  kLongBinPut = 0x72,
  kSetItem = 0x73,
  kTuple = 0x74,
  kSetItems = 0x75,
  kEmptyDict = 0x7d,
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kShortBinUnicode = 0x8c,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

}  // namespace

bool PickleMachine::Run() {
  if (input_.size() > kMaxPickleBytes) return Fail("longer than 64 KiB");
  if (input_.size() < 2 || Byte(0) != kProto) return Fail("does not begin with PROTO");
  if (Byte(1) < 2 || Byte(1) > 5) return Fail("protocol is not 2 to 5");
  next_ = 2;
  while (next_ < input_.size()) {
    at_ = next_;
    const uint8_t opcode = Byte(next_++);
    if (opcode == kStop) return Finish();
    if (!Step(opcode)) return false;
  }
  at_ = input_.size();
  return Fail("ends without STOP");
}

Status PickleMachine::Refused() const {
  return {ErrorCode::kKvRejected, fmt::format("pickle: {} at offset {}", why_, at_)};
}

bool PickleMachine::Fail(std::string_view why) {
  why_ = why;
  return false;
}

bool PickleMachine::Finish() {
  if (stack_.size() != 1 || mark_count_ != 0) return Fail("STOP without exactly one value");
  if (next_ != input_.size()) return Fail("bytes after STOP");
  return true;
}

bool PickleMachine::Step(uint8_t opcode) {
  switch (opcode) {
    case kFrame:
      return SkipFrame();
    case kMark:
      return PushMark();
    case kEmptyTuple:
      return Push(Kind::kTuple);
    case kEmptyList:
      return Push(Kind::kList);
    case kEmptyDict:
      return Push(Kind::kDict);
    case kBinInt1:
      return PushNumber(1);
    case kBinInt2:
      return PushNumber(2);
    case kBinInt:
      return PushNumber(4);
    case kShortBinUnicode:
      return PushBytes(Kind::kText, 1);
    case kBinUnicode:
      return PushBytes(Kind::kText, 4);
    case kShortBinBytes:
      return PushBytes(Kind::kBytes, 1);
    case kBinBytes:
      return PushBytes(Kind::kBytes, 4);
    default:
      return StepOnStack(opcode);
  }
}

bool PickleMachine::StepOnStack(uint8_t opcode) {
  switch (opcode) {
    case kTuple1:
      return MakeTuple(1);
    case kTuple2:
      return MakeTuple(2);
    case kTuple3:
      return MakeTuple(3);
    case kTuple:
      return MakeMarkedTuple();
    case kAppend:
      return Extend(Kind::kList, 1);
    case kSetItem:
      return Extend(Kind::kDict, 2);
    case kAppends:
      return ExtendMarked(Kind::kList);
    case kSetItems:
      return ExtendMarked(Kind::kDict);
    case kMemoize:
      return Remember(memo_.size());
    case kBinPut:
      return RememberAt(1);
    case kLongBinPut:
      return RememberAt(4);
    case kBinGet:
      return Recall(1);
    case kLongBinGet:
      return Recall(4);
    default:
      return StepOnObject(opcode);
  }
}

bool PickleMachine::StepOnObject(uint8_t opcode) {
  if (!classes_.empty()) {
    if (opcode == kGlobal) return PushClassOfLines();
    if (opcode == kStackGlobal) return PushClassOfStack();
    if (opcode == kNewObj) return MakeObject();
    if (opcode == kBuild) return SetState();
  }
  return Fail(fmt::format("opcode 0x{:02x} is not accepted", opcode));
}

std::optional<uint64_t> PickleMachine::ReadUnsigned(size_t width) {
  if (input_.size() - next_ < width) return std::nullopt;
  uint64_t number = 0;
  for (size_t i = 0; i < width; ++i) number |= uint64_t{Byte(next_ + i)} << (8 * i);
  next_ += width;
  return number;
}

bool PickleMachine::SkipFrame() {
  const std::optional<uint64_t> length = ReadUnsigned(8);
  if (!length || *length > input_.size() - next_) return Fail("frame is longer than the pickle");
  return true;
}

bool PickleMachine::PushNode(PickleNode node) {
  stack_.push_back(static_cast<uint32_t>(arena_.size()));
  arena_.push_back(std::move(node));
  return true;
}

bool PickleMachine::Push(Kind kind) {
  PickleNode node;
  node.kind = kind;
  return PushNode(std::move(node));
}

bool PickleMachine::PushMark() {
  if (++mark_count_ > kMaxPickleDepth) return Fail("nested too deep");
  return Push(Kind::kMark);
}

bool PickleMachine::PushNumber(size_t width) {
  const std::optional<uint64_t> bits = ReadUnsigned(width);
  if (!bits) return Fail("cut off");
  PickleNode node;
  node.kind = Kind::kNumber;
  node.number = width == 4 ? int64_t{static_cast<int32_t>(static_cast<uint32_t>(*bits))}
                           : static_cast<int64_t>(*bits);
  return PushNode(std::move(node));
}

bool PickleMachine::PushBytes(Kind kind, size_t width) {
  const std::optional<uint64_t> length = ReadUnsigned(width);
  if (!length || *length > input_.size() - next_) return Fail("cut off");
  PickleNode node;
  node.kind = kind;
  node.text = input_.substr(next_, *length);
  next_ += *length;
  return PushNode(std::move(node));
}

std::optional<size_t> PickleMachine::CountAboveMark() const {
  for (size_t i = stack_.size(); i-- > 0;) {
    if (arena_[stack_[i]].kind == Kind::kMark) return stack_.size() - 1 - i;
  }
  return std::nullopt;
}

bool PickleMachine::HasValues(size_t count) const {
  if (stack_.size() < count) return false;
  return std::all_of(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end(),
                     [&](uint32_t index) { return arena_[index].kind != Kind::kMark; });
}

bool PickleMachine::TakeItems(PickleNode* node, size_t count) {
  const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
  for (auto item = first; item != stack_.end(); ++item) {
    node->depth = std::max<uint8_t>(node->depth, static_cast<uint8_t>(arena_[*item].depth + 1));
    if (node->depth > kMaxPickleDepth) return Fail("nested too deep");
    node->items.push_back(*item);
  }
  stack_.erase(first, stack_.end());
  return true;
}

bool PickleMachine::MakeTuple(size_t count) {
  if (!HasValues(count)) return Fail("too few values");
  PickleNode node;
  node.kind = Kind::kTuple;
  return TakeItems(&node, count) && PushNode(std::move(node));
}

bool PickleMachine::MakeMarkedTuple() {
  const std::optional<size_t> count = CountAboveMark();
  if (!count) return Fail("no mark");
  PickleNode node;
  node.kind = Kind::kTuple;
  if (!TakeItems(&node, *count)) return false;
  PopMark();
  return PushNode(std::move(node));
}

void PickleMachine::PopMark() {
  stack_.pop_back();
  --mark_count_;
}

bool PickleMachine::Extend(Kind kind, size_t count) {
  if (!HasValues(count + 1)) return Fail("too few values");
  return ExtendBelow(kind, count, stack_[stack_.size() - 1 - count]);
}

bool PickleMachine::ExtendMarked(Kind kind) {
  const std::optional<size_t> count = CountAboveMark();
  if (!count || stack_.size() < *count + 2) return Fail("no mark");
  const uint32_t container = stack_[stack_.size() - *count - 2];
  if (kind == Kind::kDict && *count % 2 != 0) return Fail("key without a value");
  if (!ExtendBelow(kind, *count, container)) return false;
  PopMark();
  return true;
}

bool PickleMachine::ExtendBelow(Kind kind, size_t count, uint32_t container) {
  if (arena_[container].kind != kind) return Fail("adds items to a value of another type");
  return TakeItems(&arena_[container], count);
}

bool PickleMachine::Remember(size_t slot) {
  if (!HasValues(1)) return Fail("nothing to remember");
  if (slot >= kMaxPickleMemo) return Fail("memo of more than 1024");
  memo_[static_cast<uint32_t>(slot)] = stack_.back();
  return true;
}

bool PickleMachine::RememberAt(size_t width) {
  const std::optional<uint64_t> slot = ReadUnsigned(width);
  if (!slot) return Fail("cut off");
  return Remember(*slot);
}

bool PickleMachine::Recall(size_t width) {
  const std::optional<uint64_t> slot = ReadUnsigned(width);
  if (!slot) return Fail("cut off");
  const auto entry =
      *slot < kMaxPickleMemo ? memo_.find(static_cast<uint32_t>(*slot)) : memo_.end();
  if (entry == memo_.end()) return Fail("recalls an unset memo entry");
  stack_.push_back(entry->second);
  return true;
}

std::optional<std::string_view> PickleMachine::ReadLine() {
  const size_t end = input_.find('\n', next_);
  if (end == ByteView::npos) return std::nullopt;
  const std::string_view line = input_.substr(next_, end - next_);
  next_ = end + 1;
  return line;
}

bool PickleMachine::PushClass(std::string_view module, std::string_view name) {
  for (size_t i = 0; i < classes_.size(); ++i) {
    if (classes_[i].module != module || classes_[i].name != name) continue;
    PickleNode node;
    node.kind = Kind::kClass;
    node.number = static_cast<int64_t>(i);
    return PushNode(std::move(node));
  }
  return Fail("names a class that is not accepted");
}

bool PickleMachine::PushClassOfLines() {
  const auto module = ReadLine();
  const auto name = module ? ReadLine() : std::nullopt;
  return name ? PushClass(*module, *name) : Fail("cut off");
}

bool PickleMachine::PushClassOfStack() {
  if (!HasValues(2)) return Fail("too few values");
  const PickleNode& name = arena_[stack_.back()];
  const PickleNode& module = arena_[stack_[stack_.size() - 2]];
  if (name.kind != Kind::kText || module.kind != Kind::kText) {
    return Fail("a class is not named by text");
  }
  stack_.resize(stack_.size() - 2);
  return PushClass(module.text, name.text);
}

bool PickleMachine::MakeObject() {
  if (!HasValues(2)) return Fail("too few values");
  const PickleNode& arguments = arena_[stack_.back()];
  const PickleNode& type = arena_[stack_[stack_.size() - 2]];
  if (type.kind != Kind::kClass) return Fail("makes an object without a class");
  if (arguments.kind != Kind::kTuple || !arguments.items.empty()) {
    return Fail("makes an object with arguments");
  }
  PickleNode node;
  node.kind = Kind::kObject;
  node.number = type.number;
  stack_.resize(stack_.size() - 2);
  return PushNode(std::move(node));
}

bool PickleMachine::SetState() {
  if (!HasValues(2)) return Fail("too few values");
  const uint32_t object = stack_[stack_.size() - 2];
  if (arena_[object].kind != Kind::kObject || !arena_[object].items.empty()) {
    return Fail("sets the state of a value that is not a new object");
  }
  if (arena_[stack_.back()].kind != Kind::kDict) return Fail("a state is not a dictionary");
  return TakeItems(&arena_[object], 1);
}

}  // namespace hvdray
