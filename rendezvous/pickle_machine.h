// SPDX-License-Identifier: Apache-2.0
// A stack machine for the few pickle opcodes of plain data; rejects all others. Objects are passive
// records, only of classes that the caller names. Values are in an arena and refer to each other by
// index, so a self-referential pickle is only a graph of numbers and harmless. Pure; never
// recurses.
#ifndef HVDRAY_RENDEZVOUS_PICKLE_MACHINE_H_
#define HVDRAY_RENDEZVOUS_PICKLE_MACHINE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace hvdray {

/// Limits for any pickle: its length, nesting, and remembered values.
inline constexpr size_t kMaxPickleBytes = size_t{64} * 1024;
inline constexpr size_t kMaxPickleDepth = 8;
inline constexpr size_t kMaxPickleMemo = 1024;

/// A passive value of a pickle. `items` are indices for PickleMachine::At().
struct PickleNode {
  enum class Kind : uint8_t {
    kMark,
    kText,
    kBytes,
    kNumber,
    kTuple,
    kList,
    kDict,
    kClass,
    kObject
  };
  Kind kind = Kind::kMark;
  uint8_t depth = 1;
  int64_t number = 0;     ///< kNumber: the value. kClass, kObject: index of the accepted class.
  std::string_view text;  ///< kText (maybe not UTF-8) and kBytes; points into the input.
  std::vector<uint32_t> items;  ///< kDict: key, value, key, value, ... kObject: its state.
};

/// An accepted class. Its objects become records of their fields; no code of the class runs.
struct PickleClass {
  std::string_view module;
  std::string_view name;
};

/// Reads one pickle. Threads: one. `input` and `classes` must outlive the machine and its nodes.
class PickleMachine {
 public:
  explicit PickleMachine(ByteView input, std::span<const PickleClass> classes = {})
      : input_(input), classes_(classes) {}

  /// Runs to STOP; call once. True: Root() is the value. False: Refused() has the reason.
  bool Run();
  const PickleNode& Root() const { return arena_[stack_.front()]; }
  const PickleNode& At(uint32_t index) const { return arena_[index]; }
  /// kKvRejected, with the offset of the rejected opcode.
  Status Refused() const;

 private:
  using Kind = PickleNode::Kind;
  // Functions that return bool: false means that the pickle is rejected and why_ is set.
  bool Fail(std::string_view why);
  uint8_t Byte(size_t offset) const { return static_cast<uint8_t>(input_[offset]); }
  bool Finish();
  bool Step(uint8_t opcode);
  bool StepOnStack(uint8_t opcode);
  bool StepOnObject(uint8_t opcode);
  /// Little-endian, `width` bytes.
  std::optional<uint64_t> ReadUnsigned(size_t width);
  bool SkipFrame();
  bool PushNode(PickleNode node);
  bool Push(Kind kind);
  bool PushMark();
  bool PushNumber(size_t width);
  bool PushBytes(Kind kind, size_t width);
  /// Number of values above the last mark; nullopt: no mark.
  std::optional<size_t> CountAboveMark() const;
  /// The stack has `count` values above its last mark.
  bool HasValues(size_t count) const;
  /// Moves the top `count` values into `node`; its depth grows with theirs. False: too deep.
  bool TakeItems(PickleNode* node, size_t count);
  bool MakeTuple(size_t count);
  bool MakeMarkedTuple();
  void PopMark();
  /// Moves the top values into the list or dict below them: `count`, or all above the last mark.
  bool Extend(Kind kind, size_t count);
  bool ExtendMarked(Kind kind);
  bool ExtendBelow(Kind kind, size_t count, uint32_t container);
  /// The memo: stores the top value, or pushes a stored one. The slot is `width` bytes of input.
  bool Remember(size_t slot);
  bool RememberAt(size_t width);
  bool Recall(size_t width);
  std::optional<std::string_view> ReadLine();
  /// Pushes the class if it is accepted; its name comes from two lines, or from the stack.
  bool PushClass(std::string_view module, std::string_view name);
  bool PushClassOfLines();
  bool PushClassOfStack();
  bool MakeObject();
  bool SetState();

  ByteView input_;
  std::span<const PickleClass> classes_;
  size_t next_ = 0;  // Offset of the next byte to read.
  size_t at_ = 0;    // Offset of the present opcode, for Refused().
  size_t mark_count_ = 0;
  std::vector<PickleNode> arena_;
  std::vector<uint32_t> stack_;  // Indices into arena_, as are the values of memo_.
  std::unordered_map<uint32_t, uint32_t> memo_;
  std::string why_;
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_PICKLE_MACHINE_H_
