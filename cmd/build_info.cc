#include <utility>

#include "cmd/commands.h"

namespace hvdray {
namespace {

std::string OrNone(std::string version) { return version.empty() ? "none" : std::move(version); }

}  // namespace

std::string BuildName() { return "hvdray " HVDRAY_VERSION " (" HVDRAY_COMMIT ")"; }

std::string BuildTable() {
  return BuildName() +
         ":\n\n"
         "Available Frameworks (whatever Horovod in the workers was built with):\n"
         "    [X] TensorFlow\n"
         "    [X] PyTorch\n"
         "    [X] MXNet\n\n"
         "Available Controllers:\n"
         "    [ ] MPI\n"
         "    [X] Gloo\n\n"
         "Available Tensor Operations (CPU operations are set to Gloo; NCCL is Horovod's own):\n"
         "    [X] NCCL\n"
         "    [ ] DDL\n"
         "    [ ] CCL\n"
         "    [ ] MPI\n"
         "    [X] Gloo\n\n"
         "Found when this was built (nothing here uses them yet): CUDA " +
         OrNone(HVDRAY_CUDA) + ", NCCL " + OrNone(HVDRAY_NCCL) + "\n";
}

}  // namespace hvdray
