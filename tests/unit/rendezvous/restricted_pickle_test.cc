// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/restricted_pickle.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/base64.h"
#include "rendezvous/pickle_machine.h"
#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

using std::string_literals::operator""s;

/// Spec 3.10: 78 bytes, key = 32 x 'k', as a live worker sent it.
constexpr const char* kExample =
    "gAWVQwAAAAAAAAB9lIwEZXRoMJRdlIwIMTAuMC4wLjWUTbuchpRhc0Mga2tra2tra2tra2tra2tra2tra2tra2tra2tr"
    "a2tra2uUhpQu";

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

std::string Refusal(std::string_view pickle) {
  const Result<WorkerAddresses> read = ReadWorkerAddresses(pickle);
  if (read.ok()) return "accepted";
  EXPECT_EQ(read.status().code(), ErrorCode::kKvRejected);
  return read.status().message();
}

// Pieces of hand-made pickles, named as pickletools names them.
const std::string kProto4 = "\x80\x04";
const std::string kStop = ".";
std::string Text(const std::string& text) {
  return "\x8c"s + static_cast<char>(text.size()) + text;
}
std::string Bytes(const std::string& bytes) {
  return "C"s + static_cast<char>(bytes.size()) + bytes;
}
std::string Port(int port) {
  return "M"s + static_cast<char>(port & 0xff) + static_cast<char>(port >> 8);
}
const std::string kKey = Bytes(std::string(32, 'k'));
/// ({'eth0': [<item>]}, key), with whatever item makes one value.
std::string WithItem(const std::string& item) {
  return kProto4 + "}" + Text("eth0") + "]" + item + "as" + kKey + "\x86" + kStop;
}
std::string WithAddress(const std::string& ip, const std::string& port) {
  return WithItem(Text(ip) + port + "\x86");
}
/// ({<name>: []}, key)
std::string WithName(const std::string& name) {
  return kProto4 + "}" + Text(name) + "]s" + kKey + "\x86" + kStop;
}

TEST(RestrictedPickleTest, ReadsTheExampleOfALiveWorker) {
  const Result<std::string> pickle = DecodeBase64(kExample, kMaxPickleBytes);
  ASSERT_TRUE(pickle.ok());
  ASSERT_EQ(pickle->size(), 78u);
  const Result<WorkerAddresses> read = ReadWorkerAddresses(*pickle);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  ASSERT_EQ(read->interfaces.size(), 1u);
  EXPECT_EQ(read->interfaces[0].name, "eth0");
  EXPECT_EQ(read->interfaces[0].endpoints,
            (std::vector<WorkerAddresses::Endpoint>{{"10.0.0.5", 40123}}));
  for (const uint8_t byte : read->key) EXPECT_EQ(byte, 'k');
}

// ({'eth0': [('10.0.0.5', 40123), ('10.0.0.6', 200)], 'lo': [('127.0.0.1', 65535)]}, bytes 0..31),
// made by CPython 3.11.
constexpr const char* kTwoInterfaces[] = {
    "80037d71002858040000006574683071015d710228580800000031302e302e302e3571034dbb9c8671045808000000"
    "3"
    "1302e302e302e3671054bc88671066558020000006c6f71075d710858090000003132372e302e302e3171094dffff8"
    "6"
    "710a61754320000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f710b86710c2e",
    "8004956d000000000000007d94288c0465746830945d94288c0831302e302e302e35944dbb9c86948c0831302e302e"
    "3"
    "02e36944bc88694658c026c6f945d948c093132372e302e302e31944dffff869461754320000102030405060708090"
    "a"
    "0b0c0d0e0f101112131415161718191a1b1c1d1e1f9486942e",
    "8005956d000000000000007d94288c0465746830945d94288c0831302e302e302e35944dbb9c86948c0831302e302e"
    "3"
    "02e36944bc88694658c026c6f945d948c093132372e302e302e31944dffff869461754320000102030405060708090"
    "a"
    "0b0c0d0e0f101112131415161718191a1b1c1d1e1f9486942e"};

TEST(RestrictedPickleTest, ReadsProtocolsThreeToFive) {
  for (const char* hex : kTwoInterfaces) {
    const Result<WorkerAddresses> read = ReadWorkerAddresses(FromHex(hex));
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(ToPublicText(*read),
              "eth0 10.0.0.5:40123 10.0.0.6:200\n"
              "lo 127.0.0.1:65535\n");
    EXPECT_EQ(read->key[31], 31);
  }
}

TEST(RestrictedPickleTest, ProtocolTwoNeedsCodeForBytesAndIsRefusedThere) {
  // CPython writes bytes as _codecs.encode('kkk...', 'latin1') in protocol 2.
  const std::string pickle = FromHex(
      "80027d710058040000006574683071015d7102580800000031302e302e302e3571034dbb9c8671046173635f636f"
      "64"
      "6563730a656e636f64650a710558200000006b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b"
      "6b"
      "6b6b6b710658060000006c6174696e31710786710852710986710a2e");
  EXPECT_NE(Refusal(pickle).find("opcode 0x63"), std::string::npos) << Refusal(pickle);
}

TEST(RestrictedPickleTest, ProtocolTwoWithPlainBytesIsRead) {
  std::string pickle = WithAddress("10.0.0.5", Port(1));
  pickle[1] = 2;
  EXPECT_EQ(Refusal(pickle), "accepted");
}

TEST(RestrictedPickleTest, EveryPrefixOfAGoodPickleIsRefused) {
  for (const char* hex : kTwoInterfaces) {
    const std::string pickle = FromHex(hex);
    for (size_t size = 0; size < pickle.size(); ++size) {
      EXPECT_NE(Refusal(pickle.substr(0, size)), "accepted") << size;
    }
    EXPECT_NE(Refusal(pickle + "."), "accepted") << "bytes behind STOP";
  }
}

TEST(RestrictedPickleTest, EveryOpcodeThatIsNotListedIsRefused) {
  const std::string accepted =
      "\x28\x29\x2e\x42\x43\x4a\x4b\x4d\x58\x5d\x61\x65\x68\x6a\x71\x72\x73\x74\x75\x7d\x85\x86"
      "\x87\x8c\x94\x95"s;
  int refused = 0;
  for (int opcode = 0; opcode < 256; ++opcode) {
    if (accepted.find(static_cast<char>(opcode)) != std::string::npos) continue;
    const std::string pickle = kProto4 + ")" + static_cast<char>(opcode) + "os\nsystem\n" + kStop;
    EXPECT_TRUE(NamesFacts(Refusal(pickle), {"not accepted", "offset 3"})) << opcode;
    ++refused;
  }
  EXPECT_EQ(refused, 256 - 26);
}

TEST(RestrictedPickleTest, CodeIsRefusedWhereverItHides) {
  const std::vector<std::string> payloads = {
      "cos\nsystem\n"s + Text("id") + "\x85R",                      // GLOBAL REDUCE
      Text("os") + Text("system") + "\x93" + Text("id") + "\x85R",  // STACK_GLOBAL
      "(ios\nsystem\n"s,                                            // INST
      "("s + Text("x") + "o",                                       // OBJ
      ")\x81"s,
      "}b"s,
      "\x82\x01"s,
      "\x83\x01\x00"s,
      "\x84\x01\x00\x00\x00"s,
      "Pid\n"s,
      Text("x") + "Q",
      "\x8a\x01\x05"s,
      "\x8b\x01\x00\x00\x00\x05"s,
      "\x92"s,
      "\x97\x98"s};
  for (const std::string& payload : payloads) {
    EXPECT_NE(Refusal(WithItem(payload)), "accepted");
    EXPECT_NE(Refusal(kProto4 + payload + kStop), "accepted");
  }
}

TEST(RestrictedPickleTest, RefusesWhatIsTooLong) {
  std::string pickle = WithAddress("10.0.0.5", Port(1));
  const std::string filler(kMaxPickleBytes, 'x');
  EXPECT_NE(Refusal(pickle + filler).find("longer than 64 KiB"), std::string::npos);
  EXPECT_NE(Refusal(kProto4 + "X\xff\xff\xff\xff"s + "abc").find("cut off"), std::string::npos);
  EXPECT_NE(Refusal(kProto4 + "B\xff\xff\xff\x7f"s + "abc").find("cut off"), std::string::npos);
  EXPECT_NE(Refusal(kProto4 + "\x95\xff\xff\xff\xff\xff\xff\xff\xff"s + "N.").find("frame"),
            std::string::npos);
}

TEST(RestrictedPickleTest, RefusesWhatIsNestedTooDeep) {
  std::string lists = kProto4;
  for (int i = 0; i < 9; ++i) lists += "]";
  for (int i = 0; i < 8; ++i) lists += "a";
  EXPECT_NE(Refusal(lists + kStop).find("too deep"), std::string::npos);
  std::string tuples = kProto4 + ")";
  for (int i = 0; i < 8; ++i) tuples += "\x85";
  EXPECT_NE(Refusal(tuples + kStop).find("too deep"), std::string::npos);
  EXPECT_NE(Refusal(kProto4 + std::string(9, '(') + kStop).find("too deep"), std::string::npos);
  EXPECT_EQ(Refusal(kProto4 + std::string(8, '(') + kStop).find("too deep"), std::string::npos);
}

TEST(RestrictedPickleTest, AListThatContainsItselfEndsNothingButItsOwnReading) {
  EXPECT_NE(Refusal(kProto4 + "]\x94h\x00"s + "a" + kStop), "accepted");
  std::string again = kProto4 + "]\x94";
  for (int i = 0; i < 20; ++i) again += "h\x00"s + "a";
  EXPECT_NE(Refusal(again + kStop).find("too deep"), std::string::npos);
  EXPECT_NE(Refusal(kProto4 + "}\x94" + Text("eth0") + "h\x00s"s + kKey + "\x86" + kStop),
            "accepted");
}

TEST(RestrictedPickleTest, TheMemoIsBounded) {
  std::string many = kProto4 + ")";
  for (size_t i = 0; i < kMaxPickleMemo; ++i) many += "\x94";
  EXPECT_EQ(Refusal(many + kStop).find("memo"), std::string::npos);
  EXPECT_NE(Refusal(many + "\x94" + kStop).find("memo of more than 1024"), std::string::npos);
  EXPECT_NE(Refusal(kProto4 + ")r\x00\x04\x00\x00"s + kStop).find("memo"), std::string::npos);
  EXPECT_NE(Refusal(kProto4 + ")r\xff\xff\xff\xff"s + kStop).find("memo"), std::string::npos);
}

TEST(RestrictedPickleTest, RecallsOnlyWhatItRemembered) {
  EXPECT_NE(Refusal(kProto4 + "h\x00"s + kStop).find("unset memo entry"), std::string::npos);
  EXPECT_NE(Refusal(kProto4 + "j\xff\xff\xff\xff"s + kStop).find("unset memo entry"),
            std::string::npos);
  EXPECT_NE(Refusal(kProto4 + "\x94" + kStop).find("nothing to remember"), std::string::npos);
  EXPECT_NE(Refusal(kProto4 + "(\x94" + kStop).find("nothing to remember"), std::string::npos);
}

TEST(RestrictedPickleTest, MalformedStacksAreRefused) {
  for (const std::string& body :
       {"\x86"s, ")\x86"s, "t"s, ")t"s, "a"s,   "]a"s,   "))a"s, "]e"s,
        ")(e"s,  "(e"s,    "s"s, "}s"s, "})s"s, ")))s"s, "u"s,   "}(" + Text("a") + "u",
        "(."s,   "))"s,    ""s,  "(s"s, "](a"s, "}()s"s}) {
    EXPECT_NE(Refusal(kProto4 + body + kStop), "accepted") << testing::PrintToString(body);
  }
}

TEST(RestrictedPickleTest, OnlyTheOneShapeIsAccepted) {
  EXPECT_EQ(Refusal(WithAddress("10.0.0.5", Port(40123))), "accepted");
  for (const std::string& root :
       {")"s, "}"s, "]"s, Text("x"), Port(1), kKey, "}" + kKey + "\x86", kKey + "}" + "\x86",
        "}" + kKey + kKey + "\x87", "]" + kKey + "\x86", Text("eth0") + "]\x86" + kKey + "\x86"}) {
    EXPECT_NE(Refusal(kProto4 + root + kStop), "accepted") << testing::PrintToString(root);
  }
}

TEST(RestrictedPickleTest, TheKeyIs32Bytes) {
  for (const std::string& key : {Bytes(std::string(31, 'k')), Bytes(std::string(33, 'k')),
                                 Bytes(""), Text(std::string(32, 'k')), Port(1)}) {
    EXPECT_NE(Refusal(kProto4 + "}" + Text("eth0") + "]s" + key + "\x86" + kStop)
                  .find("the key is not 32 bytes"),
              std::string::npos);
  }
}

TEST(RestrictedPickleTest, AddressesAreIpv4AndPortsArePorts) {
  for (const char* ip : {"", "10.0.0", "10.0.0.256", "010.0.0.1", "10.0.0.5 ", "::1", "localhost",
                         "10.0.0.5:1", "1.2.3.4.5", "0x7f.0.0.1"}) {
    EXPECT_NE(Refusal(WithAddress(ip, Port(1))).find("not IPv4"), std::string::npos) << ip;
  }
  EXPECT_NE(Refusal(WithAddress("10.0.0.5\0x"s, Port(1))).find("not IPv4"), std::string::npos);
  EXPECT_NE(Refusal(WithAddress("10.0.0.5", Port(0))).find("port"), std::string::npos);
  EXPECT_NE(Refusal(WithAddress("10.0.0.5", "J\x00\x00\x01\x00"s)).find("port"), std::string::npos);
  EXPECT_NE(Refusal(WithAddress("10.0.0.5", "J\xff\xff\xff\xff"s)).find("port"), std::string::npos);
  EXPECT_EQ(Refusal(WithAddress("10.0.0.5", "J\xff\xff\x00\x00"s)), "accepted");
  EXPECT_NE(Refusal(WithAddress("10.0.0.5", Text("80"))), "accepted");
  EXPECT_NE(Refusal(WithItem(Text("10.0.0.5"))), "accepted");
  EXPECT_NE(Refusal(WithItem(Text("10.0.0.5") + Port(1) + Port(1) + "\x87")), "accepted");
}

TEST(RestrictedPickleTest, InterfaceNamesAreThoseOfTheKernel) {
  EXPECT_EQ(Refusal(WithName("eth0")), "accepted");
  EXPECT_EQ(Refusal(WithName("enp0s31f6.1234:")), "accepted");
  for (const std::string& name :
       {""s, "a b"s, "eth0\n"s, "eth0/1"s, "eth0\0"s, "\xc3\xb6"s, std::string(16, 'e')}) {
    EXPECT_NE(Refusal(WithName(name)), "accepted") << testing::PrintToString(name);
  }
}

TEST(RestrictedPickleTest, AnInterfaceIsThereOnceAndAtLeastOneIs) {
  EXPECT_NE(Refusal(kProto4 + "}" + Text("a") + "]s" + Text("a") + "]s" + kKey + "\x86" + kStop)
                .find("duplicate interface"),
            std::string::npos);
  EXPECT_NE(Refusal(kProto4 + "}" + kKey + "\x86" + kStop), "accepted");
}

TEST(RestrictedPickleTest, OneListNamedManyTimesDoesNotGrow) {
  // 1,000 addresses in a list, and the list under many names: refused before it is copied.
  std::string inner =
      kProto4 + "}(" + Text("a") + "]\x94(" + Text("10.0.0.5") + Port(1) + "\x86\x94";
  for (int i = 0; i < 1000; ++i) inner += "h\x01"s;
  inner += "e";
  for (int i = 0; i < 200; ++i) inner += Text("if" + std::to_string(i)) + "h\x00"s;
  inner += "u" + kKey + "\x86" + kStop;
  EXPECT_NE(Refusal(inner).find("too many addresses"), std::string::npos) << Refusal(inner);
}

TEST(RestrictedPickleTest, TooManyInterfacesAreRefused) {
  std::string pickle = kProto4 + "}(";
  for (size_t i = 0; i <= kMaxWorkerInterfaces; ++i) pickle += Text("if" + std::to_string(i)) + "]";
  pickle += "u" + kKey + "\x86" + kStop;
  EXPECT_NE(Refusal(pickle).find("too many interfaces"), std::string::npos);
}

TEST(RestrictedPickleTest, TheKeyIsNotInThePublicText) {
  const Result<WorkerAddresses> read = ReadWorkerAddresses(WithAddress("10.0.0.5", Port(7)));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(ToPublicText(*read), "eth0 10.0.0.5:7\n");
}

}  // namespace
}  // namespace hvdray
