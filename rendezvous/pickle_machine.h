// A stack machine for the few pickle opcodes that plain data needs; every other opcode is refused.
// Objects are passive too, and of classes that the caller names; without any they are refused.
// Values live in an arena and refer to each other by index, so a pickle that refers to itself is a
// graph of numbers and no danger. Pure; never recurses.
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

/// Limits of the reader, whatever the pickle says of itself.
inline constexpr size_t kMaxPickleBytes = size_t{64} * 1024;
inline constexpr size_t kMaxPickleDepth = 8;
inline constexpr size_t kMaxPickleMemo = 1024;

/// A passive value of a pickle.
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
  int64_t number = 0;     ///< Of kClass and kObject: which of the accepted classes.
  std::string_view text;  ///< Of kText (not checked to be UTF-8) and kBytes.
  std::vector<uint32_t>
      items;  ///< Of a kDict: key, value, key, value, ... Of a kObject: its state.
};

/// A class whose objects are accepted, as a record of their fields: no code of it is looked for.
struct PickleClass {
  std::string_view module;
  std::string_view name;
};

/// Reads one pickle. `input` and `classes` must outlive the machine and the nodes.
class PickleMachine {
 public:
  explicit PickleMachine(ByteView input, std::span<const PickleClass> classes = {})
      : input_(input), classes_(classes) {}

  /// Runs to STOP, once. true: Root() is the value; false: Refused() says why.
  bool Run();
  const PickleNode& Root() const { return arena_[stack_.front()]; }
  const PickleNode& At(uint32_t index) const { return arena_[index]; }
  /// kKvRejected with the offset of the opcode that was not accepted.
  Status Refused() const;

 private:
  using Kind = PickleNode::Kind;
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
  /// Number of values above the last mark; nullopt without one.
  std::optional<size_t> CountAboveMark() const;
  bool HasValues(size_t count) const;
  /// Moves the top `count` values into `node`; its depth grows with theirs.
  bool TakeItems(PickleNode* node, size_t count);
  bool MakeTuple(size_t count);
  bool MakeMarkedTuple();
  void PopMark();
  bool Extend(Kind kind, size_t count);
  bool ExtendMarked(Kind kind);
  bool ExtendBelow(Kind kind, size_t count, uint32_t container);
  bool Remember(size_t slot);
  bool RememberAt(size_t width);
  bool Recall(size_t width);
  std::optional<std::string_view> ReadLine();
  bool PushClass(std::string_view module, std::string_view name);
  bool PushClassOfLines();
  bool PushClassOfStack();
  bool MakeObject();
  bool SetState();

  ByteView input_;
  std::span<const PickleClass> classes_;
  size_t next_ = 0;
  size_t at_ = 0;
  size_t mark_count_ = 0;
  std::vector<PickleNode> arena_;
  std::vector<uint32_t> stack_;
  std::unordered_map<uint32_t, uint32_t> memo_;
  std::string why_;
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_PICKLE_MACHINE_H_
