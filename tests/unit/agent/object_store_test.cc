// SPDX-License-Identifier: Apache-2.0
// Not here: how workers get objects (stdin_pump_test.cc, integration_objects).
#include "agent/object_store.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/sealed_memory.h"

namespace hvdray {
namespace {

wire::ObjectPiece Piece(int64_t object, uint64_t size, uint64_t offset, std::string bytes) {
  return {.object = object, .size = size, .offset = offset, .bytes = std::move(bytes)};
}

/// Stores a piece that must be taken.
void Add(ObjectStore& store, const wire::ObjectPiece& piece) {
  const auto problem = store.Add(piece);
  ASSERT_TRUE(problem.ok()) << problem.status().ToString();
  EXPECT_FALSE(problem->has_value());
}

std::string ContentOf(const ObjectStore& store, int64_t object) {
  auto view = store.Get(object);
  if (!view.ok() || !view->fd.is_valid()) return "?";
  std::string bytes(view->size + 1, '\0');
  const ssize_t n = ::read(view->fd.get(), bytes.data(), bytes.size());
  bytes.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return bytes;
}

TEST(ObjectStoreTest, PiecesBecomeOneObjectThatNobodyCanChange) {
  ObjectStore store;
  Add(store, Piece(7, 6, 0, "abcd"));
  EXPECT_EQ(store.Get(7).status().code(), ErrorCode::kProtocolError) << "not complete";
  Add(store, Piece(7, 6, 4, "ef"));
  EXPECT_EQ(ContentOf(store, 7), "abcdef");
  EXPECT_EQ(ContentOf(store, 7), "abcdef") << "each view has its own offset";
  const auto view = store.Get(7);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(::write(view->fd.get(), "x", 1), -1);
  EXPECT_EQ(::mmap(nullptr, 6, PROT_READ | PROT_WRITE, MAP_SHARED, view->fd.get(), 0), MAP_FAILED);
  void* map = ::mmap(nullptr, 6, PROT_READ | PROT_WRITE, MAP_PRIVATE, view->fd.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  static_cast<char*>(map)[0] = 'X';  // of this process alone
  ::munmap(map, 6);
  EXPECT_EQ(ContentOf(store, 7), "abcdef");
}

TEST(ObjectStoreTest, SealedMemoryOfAProcessIsAnObjectAtOnce) {
  ObjectStore store;
  UniqueFd memory = MakeSealedMemory("test", "abcdef").value();
  const auto self = static_cast<uint32_t>(::getpid());
  ASSERT_EQ(store.Map(3, self, memory.get()).value(), (wire::ObjectProblem{3, 0}));
  EXPECT_EQ(store.Map(3, self, memory.get()).status().code(), ErrorCode::kProtocolError);
  memory.Reset();
  EXPECT_EQ(ContentOf(store, 3), "abcdef");
  EXPECT_FALSE(store.Add(Piece(3, 6, 0, "ABC")).ok());
  store.Drop(3);
  EXPECT_FALSE(store.Get(3).ok());
}

TEST(ObjectStoreTest, WhatIsNoSealedMemoryIsAProblemToReport) {
  ObjectStore store;
  const auto self = static_cast<uint32_t>(::getpid());
  const UniqueFd open(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  Pipe pipe = MakePipe().value();
  EXPECT_EQ(store.Map(1, self, open.get()).value(), (wire::ObjectProblem{1, EINVAL}));
  EXPECT_EQ(store.Map(2, self, pipe.read_end.get()).value(), (wire::ObjectProblem{2, EINVAL}));
  EXPECT_EQ(store.Map(4, self, 9999).value(), (wire::ObjectProblem{4, ENOENT}));
  EXPECT_FALSE(store.Get(4).value().fd.is_valid());
}

TEST(ObjectStoreTest, AnObjectMayBeEmpty) {
  ObjectStore store;
  Add(store, Piece(1, 0, 0, ""));
  EXPECT_EQ(ContentOf(store, 1), "");
}

TEST(ObjectStoreTest, WhatHasAViewLivesOnWhenItIsDropped) {
  ObjectStore store;
  Add(store, Piece(1, 3, 0, "abc"));
  const auto view = store.Get(1);
  ASSERT_TRUE(view.ok());
  store.Drop(1);
  store.Drop(1);
  EXPECT_FALSE(store.Get(1).ok());
  char bytes[3];
  EXPECT_EQ(::read(view->fd.get(), bytes, 3), 3);
  Add(store, Piece(1, 1, 0, "z"));
  EXPECT_EQ(ContentOf(store, 1), "z") << "another client's number 1";
}

TEST(ObjectStoreTest, PiecesOfADroppedObjectAreIgnored) {
  ObjectStore store;
  Add(store, Piece(1, 6, 0, "abc"));
  store.Drop(1);
  Add(store, Piece(1, 6, 3, "def"));
  EXPECT_FALSE(store.Get(1).ok());
}

TEST(ObjectStoreTest, PiecesOutOfOrderAreRefused) {
  const auto is_refused = [](ObjectStore& store, const wire::ObjectPiece& piece) {
    const auto problem = store.Add(piece);
    return !problem.ok() && problem.status().code() == ErrorCode::kProtocolError;
  };
  ObjectStore store;
  Add(store, Piece(1, 6, 0, "abc"));
  EXPECT_TRUE(is_refused(store, Piece(1, 6, 0, "abc"))) << "again";
  EXPECT_TRUE(is_refused(store, Piece(1, 6, 4, "e"))) << "a gap";
  EXPECT_TRUE(is_refused(store, Piece(1, 7, 3, "d"))) << "another size";
  EXPECT_TRUE(is_refused(store, Piece(1, 6, 3, "defg"))) << "too long";
  EXPECT_TRUE(is_refused(store, Piece(1, 6, 3, ""))) << "nothing";
  Add(store, Piece(1, 6, 3, "def"));
  EXPECT_TRUE(is_refused(store, Piece(1, 6, 6, ""))) << "complete";
}

TEST(ObjectStoreTest, AHostThatCannotHoldItSaysSoOnceAndGoesOn) {
  // The kernel refuses to let a file grow beyond this.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{4, before.rlim_max};
  const auto old = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  ObjectStore store;
  const auto problem = store.Add(Piece(1, 12, 0, "abcdefgh"));
  const auto rest = store.Add(Piece(1, 12, 8, "ijkl"));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, old);
  ASSERT_TRUE(problem.ok() && problem->has_value());
  EXPECT_EQ(**problem, (wire::ObjectProblem{1, EFBIG}));
  ASSERT_TRUE(rest.ok());
  EXPECT_FALSE(rest->has_value());
  const auto view = store.Get(1);
  ASSERT_TRUE(view.ok());
  EXPECT_FALSE(view->fd.is_valid());
}

}  // namespace
}  // namespace hvdray
