// SPDX-License-Identifier: Apache-2.0
//
// Collective operations that meet by name, in any order on each rank, for bindings to languages and
// frameworks: hvdray.torch is over it. It knows pointers, shapes, types and devices; no header of a
// framework or of Python. collective/hvdray.h has operations that meet by the order of their calls.
//
// An operation begins with hvdray_async_submit() on each rank of its process set, with the same
// name. A thread of the library exchanges the names with the other ranks and runs what is there on
// all of them, in one order. hvdray_async_wait() tells how it ended.
//
// Functions that return int return 0 or the number of an error, and hvdray_error() has the line:
//   101  a wrong argument of this rank (from submit), or ranks that disagree (from wait, on every
//        rank: "Mismatched ..."; the others' operations go on)
//   106  not supported (Adasum)
//   401  a rank has died, left, or called hvdray_async_shutdown(): all operations in flight and all
//        later ones end with it, on every rank. Free it and make another.
//   5    ranks stalled longer than HOROVOD_STALL_SHUTDOWN_TIME_SECONDS; as 401
//   3    no memory; as 401
// Others (102, 201, ...) come from hvdray_async_init() only, as from hvdray_init().
//
// Memory: what input, output, context, allocate and run point to must stay until the operation has
// ended (poll says 1, or reap names the handle), also when nobody waits. All else of a request is
// copied by submit. An operation changes no input but its own output.
//
// Threads: any, at any time, unless said otherwise. A child of fork() has none of it: its calls
// return 101 ("not initialized in this process"), hvdray_async_free() there does nothing.
//
// A rank that lets others wait longer than HOROVOD_STALL_CHECK_TIME_SECONDS says so in the record
// that hvdray keeps of its error (TORCHELASTIC_ERROR_FILE), as long as it does.
//
// Variables, read by hvdray_async_init(): those of hvdray_init(); HOROVOD_LOCAL_RANK, _LOCAL_SIZE,
// _CROSS_RANK, _CROSS_SIZE; HOROVOD_FUSION_THRESHOLD (bytes, default 64 MiB),
// HOROVOD_DISABLE_GROUP_FUSION, HOROVOD_CYCLE_TIME (ms; default: operations begin at once),
// HOROVOD_STALL_CHECK_DISABLE, HOROVOD_STALL_CHECK_TIME_SECONDS (60),
// HOROVOD_STALL_SHUTDOWN_TIME_SECONDS (0: never), HOROVOD_TIMELINE, HOROVOD_TIMELINE_MARK_CYCLES.
// Rank 0's of fusion, cycle and stall are everybody's.
//
// A program that loads the library at run time finds it as libhvdray.so.0: in build/*/collective of
// a build, in lib of an installed tree, and in lib/hvdray of the environment that the wheel is
// installed into (sysconfig.get_path("data") + "/lib/hvdray"), beside what it needs.
#ifndef HVDRAY_COLLECTIVE_ASYNC_ASYNC_H_
#define HVDRAY_COLLECTIVE_ASYNC_ASYNC_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hvdray_async hvdray_async;

// The numbers are part of the interface.
// NOLINTBEGIN(readability-identifier-naming): constants as C has them
typedef enum {
  HVDRAY_ALLREDUCE = 0,
  HVDRAY_ALLGATHER = 1,
  HVDRAY_BROADCAST = 2,
  HVDRAY_ALLTOALL = 3,
  HVDRAY_REDUCESCATTER = 4,
  HVDRAY_BARRIER = 5,
  HVDRAY_JOIN = 6,
  HVDRAY_ADD_PROCESS_SET = 7,
  HVDRAY_REMOVE_PROCESS_SET = 8
} hvdray_kind;

// Types are those of hvdray_type (collective/hvdray.h: int8 0, int16 1, int32 2, int64 3, uint8 4,
// float16 5, bfloat16 6, float32 7, float64 8) and this one, a byte that is 0 or 1. Of bools sum
// and max are "or", product and min are "and"; no average, no scales.
enum { HVDRAY_BOOL = 9 };
// Operations are those of hvdray_op (sum 0, average 1, min 2, max 3, product 4) and this one, which
// is refused with 106.
enum { HVDRAY_ADASUM = 100 };
// NOLINTEND(readability-identifier-naming)

// What `run` gets: an operation on a device, in the order that all ranks of its set have.
typedef struct {
  int kind;         // hvdray_kind
  int process_set;  // its id
  int type;
  int op;
  int root;        // global rank
  int is_absent;   // 1: this rank has joined and takes part in an allreduce with zeros
  int dimensions;  // of shape
  const int64_t* shape;
  double prescale;
  double postscale;
  // Allgather: the first dimension of each member's tensor. Reducescatter: that of each member's
  // result. Alltoall: what each member sends to this one. Else none.
  const int64_t* rows;
  size_t row_count;
  // How many small allreduces come right after it that may be reduced together with it: the same
  // ones on all ranks, of one type, operation and scale.
  int following;
} hvdray_call;

typedef struct {
  // The same on all ranks; not NULL but for join, barrier, add and remove, which then get one of
  // their own. At most 65,535 bytes. A name is in flight once per process set.
  const char* name;
  int kind;         // hvdray_kind
  int process_set;  // 0: all ranks. Of REMOVE: the one to remove.
  int type;
  int op;      // allreduce, reducescatter
  int root;    // broadcast: global rank
  int device;  // -1: host memory. >= 0: `run` does the operation.
  // Allreduce, reducescatter: result = postscale * op(prescale * inputs). Otherwise 1. A multiple
  // of an integer is rounded towards zero.
  double prescale;
  double postscale;
  int dimensions;  // of shape; 0: a single number
  // Row-major and contiguous. Allgather and alltoall: the first dimension may differ.
  const int64_t* shape;
  const void* input;
  // As large as input, and input itself (in place) or apart from it: allreduce, broadcast (where
  // root may pass NULL and others' input is not read). NULL: `allocate` is called for allgather,
  // alltoall and reducescatter.
  void* output;
  // Alltoall: rows for each member, NULL: the same number for each.
  const int64_t* splits;
  size_t split_count;
  // Add: global ranks, ascending, distinct; the same on all ranks, of which all submit it.
  const int* ranks;
  size_t rank_count;
  // Join: any number (how many operations without a name this rank has counted, say); all get the
  // largest of all ranks.
  int64_t sequence;
  void* context;
  // Returns memory for the result of this shape, NULL: there is none, which ends everything with 3
  // (unless the result has no bytes). Called from the library's thread, which waits for it.
  void* (*allocate)(void* context, const int64_t* shape, int dimensions);
  // device >= 0: starts the operation, which has ended for this library when it returns. Not 0:
  // everything ends with 401. Join: called for an allreduce on a device that others do; NULL: then
  // that ends with 101 on all. Called from the library's thread.
  int (*run)(void* context, const hvdray_call* call);
} hvdray_request;

// How an operation ended. The pointers are good until hvdray_async_release() or _free().
typedef struct {
  int dimensions;
  const int64_t* shape;            // of the result
  const int64_t* received_splits;  // alltoall: rows from each member
  size_t received_split_count;
  int last_rank;     // join: the rank that joined last (global)
  int process_set;   // add: the id
  int64_t sequence;  // join: the largest of all ranks
} hvdray_result;

typedef struct {
  int rank;
  int size;
  int local_rank;
  int local_size;
  int cross_rank;
  int cross_size;
} hvdray_place;

// Meets the other ranks of the job, as hvdray_init(), whose name and variables it takes; none set:
// one process. After free, and with a new HVDRAY_GENERATION or name, again in the same process.
// Blocks.
int hvdray_async_init(const char* name, hvdray_async** async);
// Ends all operations in flight, of peers too, with 401, and the library's thread. Handles can
// still be read. Blocks shortly. Again: nothing.
void hvdray_async_shutdown(hvdray_async* async);
// As shutdown; the others' errors have `why` between this rank and "has shut down": "raised
// ValueError: the batch is empty".
void hvdray_async_shutdown_because(hvdray_async* async, const char* why);
// As shutdown_because, for one whose devices have not done all that was planned.
void hvdray_async_fail(hvdray_async* async, const char* why);
// Shuts down and frees. No other call runs, or comes later. NULL is a no-op.
void hvdray_async_free(hvdray_async* async);

// 0, or why all operations end (401, 5, 3). Doesn't block.
int hvdray_async_status(const hvdray_async* async);
// Blocks until all operations end: returns why, as hvdray_async_status(), but 4 when a rank has
// shut down, so that all that was planned before ends on all ranks. _shutdown() here lets it go.
int hvdray_async_await_end(hvdray_async* async);
void hvdray_async_place(const hvdray_async* async, hvdray_place* place);

// Ranks of a set, ascending: writes up to `capacity`, returns how many there are; -1: no such set.
int hvdray_async_process_set_ranks(const hvdray_async* async, int process_set, int* ranks,
                                   size_t capacity);
// Ids of all sets, ascending, 0 among them: writes up to `capacity`, returns how many there are.
int hvdray_async_process_sets(const hvdray_async* async, int* ids, size_t capacity);

// Begins `count` operations; doesn't block. More than one are a group, of one kind and process set:
// none runs before all are there on all ranks, and one's error is that of all. Handles are written
// to `handles`, one each; never the same again in this process.
// Errors, nothing has begun then: 101 (a name in flight: the line begins with "Duplicate name"),
// 106, and what hvdray_async_status() says.
int hvdray_async_submit(hvdray_async* async, const hvdray_request* requests, size_t count,
                        int64_t* handles);
// 1: it has ended, so that wait doesn't block. 0: in flight. -1: no such handle (any more).
int hvdray_async_poll(const hvdray_async* async, int64_t handle);
// Blocks until it has ended; returns how. May be called again, and by several threads. 101: no such
// handle.
int hvdray_async_wait(hvdray_async* async, int64_t handle);
// As wait, but -1 after `milliseconds` if it has not ended: for programs that look at signals.
int hvdray_async_wait_for(hvdray_async* async, int64_t handle, int milliseconds);
// Global ranks that have not submitted what this handle stands for, ascending, as far as this rank
// knows: writes up to `capacity`, returns how many there are. 0: none, or it isn't in flight.
size_t hvdray_async_missing(hvdray_async* async, int64_t handle, int* ranks, size_t capacity);
// Of one that has ended with 0; else 101.
int hvdray_async_result(const hvdray_async* async, int64_t handle, hvdray_result* result);
// Forgets the handle, once the operation has ended. reap still names it.
void hvdray_async_release(hvdray_async* async, int64_t handle);
// Handles whose operations have ended, each once: writes up to `capacity`, returns how many. What
// is theirs can go. Doesn't block.
size_t hvdray_async_reap(hvdray_async* async, int64_t* handles, size_t capacity);

// Rank 0 writes Horovod's timeline (Chrome's trace events) to the file; others do nothing. 101:
// already started; 1xx: the file can't be written.
int hvdray_async_timeline_start(hvdray_async* async, const char* path, int mark_cycles);
int hvdray_async_timeline_stop(hvdray_async* async);

#ifdef __cplusplus
}
#endif

#endif  // HVDRAY_COLLECTIVE_ASYNC_ASYNC_H_
