// SPDX-License-Identifier: Apache-2.0
//
// The collective library for C and everything that calls C. collective/communicator.h has the same
// for C++, and says more of each operation.
//
// Every function that returns int returns 0, or the number of an error of docs/errors.md: 401 is
// HVD-E0401, a rank has died or ended. hvdray_error() then has the line.
//
// Counts are elements, of this rank unless said otherwise. Buffers are host memory of any
// alignment; with HVDRAY_COLLECTIVE=nccl memory of the rank's GPU, aligned to an element. The
// buffers of a call don't overlap, unless they are in place as said below: 101 (those of a group
// are not compared). All ranks call the same functions in the same order, with the same count,
// type, op and root; a root or peer is a rank of the communicator. With `work` NULL a function
// returns when this rank's part is done; else it returns at once, the buffers stay as they are, and
// hvdray_wait() ends it. Started operations run in the order in which they were started, and those
// without `work` after them.
//
// Errors of all operations: 101, a wrong argument, before anything happens (but a buffer that the
// GPU can't reach ends the communicator); 106, nccl doesn't have it; 401, a rank has died, left or
// called hvdray_abort(); 5, one did not come within HOROVOD_GLOO_TIMEOUT_SECONDS; 3, no memory for
// partial results. After the last three every call of every rank returns 401: free the
// communicator, and make another.
//
// Threads: one at a time for each communicator; hvdray_abort() from any.
#ifndef HVDRAY_COLLECTIVE_HVDRAY_H_
#define HVDRAY_COLLECTIVE_HVDRAY_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hvdray_communicator hvdray_communicator;
typedef struct hvdray_work hvdray_work;

// The numbers are part of the interface.
// NOLINTBEGIN(readability-identifier-naming): constants as C has them
typedef enum {
  HVDRAY_INT8 = 0,
  HVDRAY_INT16 = 1,
  HVDRAY_INT32 = 2,
  HVDRAY_INT64 = 3,
  HVDRAY_UINT8 = 4,
  HVDRAY_FLOAT16 = 5,
  HVDRAY_BFLOAT16 = 6,
  HVDRAY_FLOAT32 = 7,
  HVDRAY_FLOAT64 = 8
} hvdray_type;

typedef enum {
  HVDRAY_SUM = 0,
  HVDRAY_AVERAGE = 1,
  HVDRAY_MIN = 2,
  HVDRAY_MAX = 3,
  HVDRAY_PRODUCT = 4,
  HVDRAY_BIT_AND = 5,
  HVDRAY_BIT_OR = 6,
  HVDRAY_BIT_XOR = 7
} hvdray_op;
// NOLINTEND(readability-identifier-naming)

// One of a group: `count` elements, reduced in place.
typedef struct {
  void* data;
  size_t count;
} hvdray_tensor;

// Meets the other ranks of the job, by the variables that `hvdray run` gives its workers; without
// them: a communicator of one rank. `name` (NULL: "") sets the communicators of a process apart: at
// most 200 printable ASCII characters, none of them a blank, '/', '%' or '?'. The variables
// are read now: a worker that gets another place, as in an elastic job, sets HOROVOD_RANK,
// HOROVOD_SIZE, HOROVOD_LOCAL_RANK and HVDRAY_GENERATION (on all ranks the same, and new) before.
// Blocks.
int hvdray_init(const char* name, hvdray_communicator** communicator);
// One of `count` ranks, in the order of `members`, the same on all of them; only they call it.
// Blocks.
int hvdray_init_some(const char* name, const int* members, size_t count,
                     hvdray_communicator** communicator);
// Waits for what was started, and leaves. NULL is a no-op.
void hvdray_free(hvdray_communicator* communicator);

int hvdray_rank(const hvdray_communicator* communicator);
int hvdray_size(const hvdray_communicator* communicator);
// "shm", "gloo", "hierarchical", "nccl" or "single"; valid as long as the communicator.
const char* hvdray_backend(const hvdray_communicator* communicator);

// Reduces `count` elements over all ranks; every rank gets the result. In place: send == recv.
int hvdray_all_reduce(hvdray_communicator* communicator, const void* send, void* recv, size_t count,
                      hvdray_type type, hvdray_op op, hvdray_work** work);
// As many all-reduces in place as there are tensors, which are packed into few. The array is
// copied.
int hvdray_group_all_reduce(hvdray_communicator* communicator, const hvdray_tensor* tensors,
                            size_t tensor_count, hvdray_type type, hvdray_op op,
                            hvdray_work** work);
// As all_reduce, but only `root` gets the result; recv may be NULL elsewhere.
int hvdray_reduce(hvdray_communicator* communicator, const void* send, void* recv, size_t count,
                  hvdray_type type, hvdray_op op, int root, hvdray_work** work);
// Copies `count` elements from root's buffer into everybody's.
int hvdray_broadcast(hvdray_communicator* communicator, void* buffer, size_t count,
                     hvdray_type type, int root, hvdray_work** work);
// recv: size() * count elements, those of each rank in the order of ranks. In place: send == recv +
// rank * count elements.
int hvdray_all_gather(hvdray_communicator* communicator, const void* send, void* recv, size_t count,
                      hvdray_type type, hvdray_work** work);
// As all_gather with counts[i] elements of rank i: size() counts, copied, the same on all ranks. In
// place: send is where this rank's part of recv begins.
int hvdray_all_gather_v(hvdray_communicator* communicator, const void* send, void* recv,
                        const size_t* counts, hvdray_type type, hvdray_work** work);
// send: size() * count elements; rank i gets the i-th `count` of the result. In place: recv == send
// + rank * count elements.
int hvdray_reduce_scatter(hvdray_communicator* communicator, const void* send, void* recv,
                          size_t count, hvdray_type type, hvdray_op op, hvdray_work** work);
// send and recv: size() * count elements, `count` for and from each rank. In place: send == recv.
int hvdray_all_to_all(hvdray_communicator* communicator, const void* send, void* recv, size_t count,
                      hvdray_type type, hvdray_work** work);
// send_counts[j] elements for rank j, recv_counts[i] from rank i, each packed one after the other:
// size() counts each, copied; send_counts[j] is what rank j has as recv_counts of this one. Never
// in place.
int hvdray_all_to_all_v(hvdray_communicator* communicator, const void* send,
                        const size_t* send_counts, void* recv, const size_t* recv_counts,
                        hvdray_type type, hvdray_work** work);
// `root` gets size() * count elements, those of each rank in order; recv may be NULL elsewhere. In
// place on root: send == recv + rank * count elements.
int hvdray_gather(hvdray_communicator* communicator, const void* send, void* recv, size_t count,
                  hvdray_type type, int root, hvdray_work** work);
// Rank i gets the i-th `count` of root's size() * count elements; send may be NULL elsewhere. In
// place on root: recv == send + rank * count elements.
int hvdray_scatter(hvdray_communicator* communicator, const void* send, void* recv, size_t count,
                   hvdray_type type, int root, hvdray_work** work);
// Done when every rank has called it.
int hvdray_barrier(hvdray_communicator* communicator, hvdray_work** work);
// Done when the buffer may be used again: before `peer` receives, or only then.
int hvdray_send(hvdray_communicator* communicator, const void* buffer, size_t count,
                hvdray_type type, int peer, hvdray_work** work);
// Gets what `peer` sends next to this rank: the same count and type.
int hvdray_recv(hvdray_communicator* communicator, void* buffer, size_t count, hvdray_type type,
                int peer, hvdray_work** work);

// 1: done, so that hvdray_wait() doesn't block; else 0. Threads: any.
int hvdray_is_done(const hvdray_work* work);
// Blocks until it is done; frees the handle; returns what the operation returned.
int hvdray_wait(hvdray_work* work);

// Ends the operations of all ranks, now and for ever, with 401.
void hvdray_abort(hvdray_communicator* communicator);

// The line of this thread's last error, until its next.
const char* hvdray_error(void);

#ifdef __cplusplus
}
#endif

#endif  // HVDRAY_COLLECTIVE_HVDRAY_H_
