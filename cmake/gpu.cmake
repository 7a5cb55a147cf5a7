# SPDX-License-Identifier: Apache-2.0
# CUDA and NCCL are optional. `hvdray run --check-build` reports which were found; the NCCL communicator
# will be built only where both are.
find_package(CUDAToolkit QUIET)
set(HVDRAY_CUDA_VERSION "")
set(HVDRAY_NCCL_VERSION "")
if(CUDAToolkit_FOUND)
  set(HVDRAY_CUDA_VERSION ${CUDAToolkit_VERSION})
  find_path(HVDRAY_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(HVDRAY_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(HVDRAY_NCCL_INCLUDE AND HVDRAY_NCCL_LIBRARY)
    file(STRINGS ${HVDRAY_NCCL_INCLUDE}/nccl.h lines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
    list(JOIN numbers "." HVDRAY_NCCL_VERSION)
  endif()
endif()
message(STATUS "CUDA: ${HVDRAY_CUDA_VERSION}, NCCL: ${HVDRAY_NCCL_VERSION} (empty: not found)")
