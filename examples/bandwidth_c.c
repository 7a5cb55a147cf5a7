/* SPDX-License-Identifier: Apache-2.0
 * Measures an all-reduce, in C. With hvdray installed:
 *   cc bandwidth_c.c $(pkg-config --cflags --libs hvdray) -o bandwidth && hvdray run -np 2 -- ./bandwidth */
#include <hvdray.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(int error) {
  if (error == 0) return;
  fprintf(stderr, "%s\n", hvdray_error());
  exit(1);
}

int main(void) {
  const int calls = 20;
  hvdray_communicator* ranks = NULL;
  check(hvdray_init("bandwidth", &ranks));
  const int rank = hvdray_rank(ranks), size = hvdray_size(ranks);
  for (size_t count = 256; count <= (4 << 20); count *= 16) {
    float* data = malloc(count * sizeof *data);
    for (size_t i = 0; i < count; ++i) data[i] = (float)rank;
    check(hvdray_all_reduce(ranks, data, data, count, HVDRAY_FLOAT32, HVDRAY_SUM, NULL));
    if (data[count - 1] != (float)(size * (size - 1) / 2)) return fprintf(stderr, "a wrong sum\n"), 1;
    check(hvdray_barrier(ranks, NULL));
    const double start = now();
    for (int i = 0; i < calls; ++i) {
      hvdray_work* work; /* computing could go on here */
      check(hvdray_all_reduce(ranks, data, data, count, HVDRAY_FLOAT32, HVDRAY_MAX, &work));
      check(hvdray_wait(work));
    }
    const double each = (now() - start) / calls;
    if (rank == 0) printf("%9zu bytes %10.1f us %7.2f GB/s over %s\n", count * 4, each * 1e6, count * 4e-9 / each, hvdray_backend(ranks));
    free(data);
  }
  hvdray_free(ranks);
  return 0;
}
