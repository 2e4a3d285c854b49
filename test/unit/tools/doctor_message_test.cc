#include "doctor/doctor_message.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace mccl {
namespace {

std::string line_of(const DoctorMessage& message) {
  std::string line = write_message(message);
  EXPECT_EQ(line.back(), '\n');
  line.pop_back();
  return line;
}

TEST(DoctorMessage, IsWrittenAsOneLineAndReadBack) {
  const DoctorMessage control = {
      .kind = MessageKind::Control, .from = 2, .hosts = "a,b,c", .words = "c is 127.0.1.1"};
  EXPECT_EQ(line_of(control), "mccl-doctor/1 control 2 a,b,c c is 127.0.1.1");
  EXPECT_EQ(parse_message(line_of(control)), control);

  const DoctorMessage turn = {.kind = MessageKind::Turn, .from = 0, .to = 63};
  EXPECT_EQ(line_of(turn), "mccl-doctor/1 turn 0 63");
  EXPECT_EQ(parse_message(line_of(turn)), turn);

  const DoctorMessage result = {.kind = MessageKind::Result,
                                .from = 1,
                                .to = 0,
                                .result = {.outcome = Outcome::Stalled,
                                           .words = "it stops",
                                           .from_address = "10.0.0.1:40000",
                                           .to_address = "[fd00::2]:29700",
                                           .interface = "eth0",
                                           .round_trip_ns = 12345,
                                           .bytes_per_second = 1'178'000'000,
                                           .packet_bytes_max = 1500,
                                           .segment_bytes_max = 1448}};
  EXPECT_EQ(line_of(result),
            "mccl-doctor/1 result 1 0 stalled 12345 1178000000 1500 1448 eth0 10.0.0.1:40000 "
            "[fd00::2]:29700 it stops");
  EXPECT_EQ(parse_message(line_of(result)), result);

  const DoctorMessage nothing = {.kind = MessageKind::Result, .from = 1, .to = 2};
  EXPECT_EQ(line_of(nothing), "mccl-doctor/1 result 1 2 not_measured 0 0 0 0 - - - ");
  EXPECT_EQ(parse_message(line_of(nothing)), nothing);
}

TEST(DoctorMessage, HidesWhatATerminalWouldObey) {
  EXPECT_EQ(line_of({.kind = MessageKind::Refuse, .words = "a\x1b[2Jb\nc"}),
            "mccl-doctor/1 refuse a?[2Jb?c");
  EXPECT_EQ(line_of({.kind = MessageKind::Refuse, .words = std::string(5000, 'x')}).size(),
            std::string("mccl-doctor/1 refuse ").size() + 1024);
}

TEST(DoctorMessage, RefusesWhatNoDoctorWrites) {
  for (const char* line :
       {"", "mccl-doctor/1", "mccl-doctor/1 ", "mccl-doctor/2 ready", "mccl-doctor/1 ready now",
        "mccl-doctor/1 hello", "SSH-2.0-OpenSSH_9.2", "mccl-doctor/1 turn 1",
        "mccl-doctor/1 turn 1 64", "mccl-doctor/1 turn -1 2", "mccl-doctor/1 turn 1 2 3",
        "mccl-doctor/1 turn 1 2x", "mccl-doctor/1  turn 1 2",
        "mccl-doctor/1 received 99999999999999999999", "mccl-doctor/1 refuse \x1b[2J",
        "mccl-doctor/1 result 1 2 fine 0 0 0 0 - - - ", "mccl-doctor/1 first"})
    EXPECT_EQ(parse_message(line), std::nullopt) << line;
  EXPECT_EQ(parse_message("mccl-doctor/1 first " + std::string(4097, 'a')), std::nullopt);
  EXPECT_NE(parse_message("mccl-doctor/1 first " + std::string(4096, 'a')), std::nullopt);
  EXPECT_EQ(parse_message("mccl-doctor/1 refuse " + std::string(8192, 'a')), std::nullopt);
}

TEST(DoctorOutcome, TellsTheErrorsOfConnectApart) {
  EXPECT_EQ(outcome_of_error(ECONNREFUSED), Outcome::Refused);
  EXPECT_EQ(outcome_of_error(ETIMEDOUT), Outcome::Dropped);
  EXPECT_EQ(outcome_of_error(EHOSTUNREACH), Outcome::Unreachable);
  EXPECT_EQ(outcome_of_error(ENETUNREACH), Outcome::Unreachable);
  EXPECT_EQ(outcome_of_error(EACCES), Outcome::Denied);
  EXPECT_EQ(outcome_of_error(EPERM), Outcome::Denied);
  EXPECT_EQ(outcome_of_error(EINVAL), Outcome::Failed);
}

TEST(DoctorInterface, IsClassifiedByItsName) {
  EXPECT_EQ(interface_kind("lo"), InterfaceKind::Loopback);
  EXPECT_EQ(interface_kind("lo0"), InterfaceKind::Loopback);
  EXPECT_EQ(interface_kind("local"), InterfaceKind::Lan);
  EXPECT_EQ(interface_kind("eth0"), InterfaceKind::Lan);
  EXPECT_EQ(interface_kind("en0"), InterfaceKind::Lan);
  EXPECT_EQ(interface_kind("wlp3s0"), InterfaceKind::WiFi);
  EXPECT_EQ(interface_kind("utun4"), InterfaceKind::Tunnel);
  EXPECT_EQ(interface_kind("tailscale0"), InterfaceKind::Tunnel);
  EXPECT_EQ(interface_kind("docker0"), InterfaceKind::Container);
  EXPECT_EQ(interface_kind("bridge0"), InterfaceKind::Thunderbolt);
  EXPECT_EQ(interface_kind("bridge100"), InterfaceKind::Container);
}

TEST(DoctorAddress, GivesItsHost) {
  EXPECT_EQ(host_of("10.0.0.1:40112"), "10.0.0.1");
  EXPECT_EQ(host_of("[fd00::1]:40112"), "fd00::1");
}

}  // namespace
}  // namespace mccl
