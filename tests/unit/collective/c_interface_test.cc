// SPDX-License-Identifier: Apache-2.0
// hvdray.h alone, in a process without a job: one rank. Jobs with it are in install_test.py.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "collective/hvdray.h"

namespace {

class CInterfaceTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(hvdray_init("test", &ranks_), 0) << hvdray_error(); }
  void TearDown() override { hvdray_free(ranks_); }

  hvdray_communicator* ranks_ = nullptr;
};

TEST_F(CInterfaceTest, KnowsItsPlace) {
  EXPECT_EQ(hvdray_rank(ranks_), 0);
  EXPECT_EQ(hvdray_size(ranks_), 1);
  EXPECT_STREQ(hvdray_backend(ranks_), "single");
}

TEST_F(CInterfaceTest, VariablesAreReadAtEachStart) {
  hvdray_communicator* other = nullptr;
  ::setenv("HVDRAY_COLLECTIVE", "paper", 1);
  EXPECT_EQ(hvdray_init("other", &other), 102);
  EXPECT_NE(std::string(hvdray_error()).find("HVDRAY_COLLECTIVE"), std::string::npos);
  ::unsetenv("HVDRAY_COLLECTIVE");
  EXPECT_EQ(hvdray_init("other", &other), 0) << hvdray_error();
  hvdray_free(other);
}

TEST_F(CInterfaceTest, ANameThatIsNoPartOfAPathIsRefused) {
  hvdray_communicator* other = nullptr;
  for (const std::string& name : {std::string("a b"), std::string("../.."), std::string("\xff"),
                                  std::string("a%2f"), std::string(201, 'x')}) {
    EXPECT_EQ(hvdray_init(name.c_str(), &other), 101) << name;
    EXPECT_LT(std::string(hvdray_error()).size(), 400U);
  }
  EXPECT_EQ(hvdray_init(std::string(200, 'x').c_str(), &other), 0) << hvdray_error();
  hvdray_free(other);
}

TEST_F(CInterfaceTest, WithoutThePortOfTheRendezvousItIsNamed) {
  ::setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1", 1);
  ::setenv("HOROVOD_SIZE", "2", 1);
  hvdray_communicator* other = nullptr;
  EXPECT_EQ(hvdray_init("other", &other), 102);
  EXPECT_NE(std::string(hvdray_error()).find("HOROVOD_GLOO_RENDEZVOUS_PORT is not"),
            std::string::npos)
      << hvdray_error();
  ::unsetenv("HOROVOD_GLOO_RENDEZVOUS_ADDR");
  ::unsetenv("HOROVOD_SIZE");
}

TEST_F(CInterfaceTest, EveryOperationRunsNowOrLater) {
  for (const bool is_later : {false, true}) {
    std::vector<float> in(6, 3.0F);
    std::vector<float> out(6);
    const size_t counts[] = {6};
    const hvdray_tensor tensors[] = {{in.data(), 2}, {in.data() + 2, 4}};
    const auto expect = [&](const auto& operation, bool has_result = true) {
      hvdray_work* work = nullptr;
      std::fill(out.begin(), out.end(), 0.0F);
      EXPECT_EQ(operation(is_later ? &work : nullptr), 0) << hvdray_error();
      if (is_later) {
        ASSERT_NE(work, nullptr);
        (void)hvdray_is_done(work);
        EXPECT_EQ(hvdray_wait(work), 0) << hvdray_error();
      }
      EXPECT_EQ(out, has_result ? in : std::vector<float>(6));
    };
    const void* send = in.data();
    void* recv = out.data();
    const hvdray_type type = HVDRAY_FLOAT32;
    using W = hvdray_work**;
    expect([&](W w) { return hvdray_all_reduce(ranks_, send, recv, 6, type, HVDRAY_AVERAGE, w); });
    expect([&](W w) { return hvdray_reduce(ranks_, send, recv, 6, type, HVDRAY_MIN, 0, w); });
    expect([&](W w) { return hvdray_all_gather(ranks_, send, recv, 6, type, w); });
    expect([&](W w) { return hvdray_all_gather_v(ranks_, send, recv, counts, type, w); });
    expect([&](W w) { return hvdray_reduce_scatter(ranks_, send, recv, 6, type, HVDRAY_MAX, w); });
    expect([&](W w) { return hvdray_all_to_all(ranks_, send, recv, 6, type, w); });
    expect([&](W w) { return hvdray_all_to_all_v(ranks_, send, counts, recv, counts, type, w); });
    expect([&](W w) { return hvdray_gather(ranks_, send, recv, 6, type, 0, w); });
    expect([&](W w) { return hvdray_scatter(ranks_, send, recv, 6, type, 0, w); });
    expect([&](W w) { return hvdray_broadcast(ranks_, in.data(), 6, type, 0, w); }, false);
    expect([&](W w) { return hvdray_group_all_reduce(ranks_, tensors, 2, type, HVDRAY_SUM, w); },
           false);
    expect([&](W w) { return hvdray_barrier(ranks_, w); }, false);
  }
}

TEST_F(CInterfaceTest, AnErrorIsANumberAndALine) {
  float value = 1;
  EXPECT_EQ(hvdray_broadcast(ranks_, &value, 1, HVDRAY_FLOAT32, 7, nullptr), 101);
  EXPECT_NE(std::string(hvdray_error()).find("no rank 7 of 1 [HVD-E0101]"), std::string::npos)
      << hvdray_error();
  EXPECT_EQ(hvdray_send(ranks_, &value, 1, HVDRAY_FLOAT32, 0, nullptr), 101);
  EXPECT_EQ(hvdray_all_reduce(ranks_, &value, &value, 1, static_cast<hvdray_type>(99), HVDRAY_SUM,
                              nullptr),
            101);
  EXPECT_EQ(hvdray_all_reduce(ranks_, &value, &value, 1, HVDRAY_FLOAT32, static_cast<hvdray_op>(-1),
                              nullptr),
            101);
  hvdray_work* work = nullptr;
  ASSERT_EQ(hvdray_all_reduce(ranks_, &value, &value, 1, HVDRAY_FLOAT32, HVDRAY_BIT_OR, &work), 0);
  EXPECT_EQ(hvdray_wait(work), 101);
  const int nobody = 5;
  hvdray_communicator* some = nullptr;
  EXPECT_EQ(hvdray_init_some("some", &nobody, 1, &some), 101);
  EXPECT_EQ(some, nullptr);
  hvdray_free(nullptr);
}

}  // namespace
