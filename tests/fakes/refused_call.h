// SPDX-License-Identifier: Apache-2.0
// A system call that fails, as under a container's filter, on an old kernel or for want of memory.
#ifndef HVDRAY_TESTS_FAKES_REFUSED_CALL_H_
#define HVDRAY_TESTS_FAKES_REFUSED_CALL_H_

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace hvdray {

/// Until the calling thread ends, for it and those that it starts: the call of this number returns
/// `error`. False: the kernel takes no filters.
inline bool RefuseCall(long number, int error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_REFUSED_CALL_H_
