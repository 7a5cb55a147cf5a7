#include "launcher/driver/late_fault.h"

#include <csignal>
#include <utility>

#include "launcher/driver/gang_cause.h"

namespace hvdray {
namespace {

constexpr int kOutputLostExit = 125;  // docs/errors.md: output not written whole

}  // namespace

void AddLateFault(Verdict& verdict, const Event& event) {
  if (verdict.exit_code != 0) return;
  Cause cause;
  if (std::holds_alternative<event::ReaderGone>(event)) {
    cause = ReaderGoneCause();
  } else if (const auto* damaged = std::get_if<event::OutputDamaged>(&event)) {
    cause.exit_code = kOutputLostExit;
    cause.error = Status(damaged->why).WithCode(ErrorCode::kOutputLost);
  } else {
    return;
  }
  verdict.exit_code = cause.exit_code;
  verdict.origin = ExitOrigin::kHvdray;
  verdict.error = std::move(cause.error);
}

void AddDrainFault(Verdict& verdict, Status drained) {
  if (drained.ok() || verdict.exit_code != 0) return;
  const bool is_reader_gone = drained.code() == ErrorCode::kReaderGone;
  verdict.exit_code = is_reader_gone ? 128 + SIGPIPE : kOutputLostExit;
  verdict.error = std::move(drained);
}

}  // namespace hvdray
