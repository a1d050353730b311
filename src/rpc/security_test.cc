// Who may call, and what those who may not are told.
#include <gtest/gtest.h>

#include <fstream>

#include "rpc/rpc_testing.h"
#include "rpc/secret.h"
#include "rpc/test_certificate.h"

namespace skippy::rpc {
namespace {

class Security : public testing::Test {
 protected:
  ServerOptions Options() { return {.address = "127.0.0.1:0", .hosts = {&stage_.host}}; }
  Stage stage_{Layers(kModel, 0, 2)};
};

using Secrets = Security;
using Tls = Security;
using Listening = Security;

TEST_F(Secrets, OnlyWhoHasItIsAnswered) {
  ServerOptions options = Options();
  options.secret = "s3cret";
  Serving serving(options);
  EXPECT_EQ(MustConnect(serving.address, {.secret = "s3cret"}).size(), 1U);
  for (const char* wrong : {"s3cres", "s3cre", "s3crett", "S3CRET", "x"})
    EXPECT_TRUE(IsError(Connect(serving.address, {.secret = wrong}), ErrorCode::kInvalidArgument,
                        {serving.address, "wrong secret", "--stage-secret-file"}))
        << wrong;
  EXPECT_TRUE(IsError(Connect(serving.address, {}), ErrorCode::kInvalidArgument,
                      {serving.address, "wrong secret, none", "--stage-secret-file"}));
}

TEST_F(Secrets, ItIsAskedForBeforeAnythingElse) {
  // The link was made by a server without one; its successor at the same address has one.
  auto serving = std::make_unique<Serving>(Options());
  const std::string address = serving->address;
  const auto link = MustAttach(address);
  ASSERT_TRUE(link);
  serving.reset();
  ServerOptions options = Options();
  options.address = address;
  options.secret = "s3cret";
  Serving successor(options);
  const std::vector<float> rows = Rows(1, stage_.runtime.input_width());
  const pipeline::PieceKey piece{Digest{}, Component::kKv, {0, 1}};
  const auto refused = [&](const auto& result) {
    return IsError(result, ErrorCode::kInvalidArgument, {link->address(), "wrong secret"});
  };
  EXPECT_TRUE(refused(link->Attach()));
  EXPECT_TRUE(refused(link->Decode(std::vector<runtime::RowsItem>{{SeqId{99}, 0, rows, false}})));
  EXPECT_TRUE(refused(link->Clear(SeqId{99})));
  EXPECT_TRUE(refused(link->Truncate(SeqId{99}, 1)));
  EXPECT_TRUE(refused(link->Copy(SeqId{99}, SeqId{99})));
  EXPECT_TRUE(refused(link->Keep(SeqId{99}, piece)));
  EXPECT_TRUE(refused(link->Held(std::vector<pipeline::PieceKey>{piece})));
  EXPECT_TRUE(refused(link->Find(std::vector<Digest>(1))));
  EXPECT_TRUE(refused(link->Forget()));
  EXPECT_TRUE(refused(link->Restore({})));
}

TEST_F(Secrets, AClientThatHasOneMayCallAServerWithout) {
  Serving serving(Options());
  EXPECT_EQ(MustConnect(serving.address, {.secret = "s3cret"}).size(), 1U);
}

TEST_F(Secrets, WhatCannotTravelIsRefusedOnBothSides) {
  for (const char* wrong : {"two words", "line\n", "\xc3\xa4"}) {
    ServerOptions options = Options();
    options.secret = wrong;
    EXPECT_TRUE(IsError(StageServer().Start(options), ErrorCode::kInvalidArgument, {"ASCII"}));
    EXPECT_TRUE(
        IsError(Connect("127.0.0.1:1", {.secret = wrong}), ErrorCode::kInvalidArgument, {"ASCII"}));
  }
}

TEST_F(Secrets, AreComparedWhole) {
  EXPECT_TRUE(SameSecret("", ""));
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("abc", "ab"));
  EXPECT_FALSE(SameSecret("abc", ""));
}

TEST_F(Listening, BeyondThisMachineNeedsASecret) {
  for (const char* address : {"0.0.0.0:0", "[::]:0", "10.1.2.3:0", "gpu-1:0"}) {
    ServerOptions options = Options();
    options.address = address;
    EXPECT_TRUE(IsError(StageServer().Start(options), ErrorCode::kInvalidArgument,
                        {address, "without a secret", "--secret-file", "127.0.0.1"}));
  }
  ServerOptions options = Options();
  options.address = "0.0.0.0:0";
  options.secret = "s3cret";
  Serving serving(options);
  EXPECT_EQ(MustConnect(serving.address, {.secret = "s3cret"}).size(), 1U);
}

TEST_F(Listening, SaysWhyItCannot) {
  Serving first(Options());
  Stage other(Layers(kModel, 0, 2));
  ServerOptions options = Options();
  options.hosts = {&other.host};
  options.address = first.address;
  EXPECT_TRUE(IsError(StageServer().Start(options), ErrorCode::kInvalidArgument,
                      {first.address, "in use"}));
  options.address = "127.0.0.1:0/0..2";
  EXPECT_TRUE(IsError(StageServer().Start(options), ErrorCode::kInvalidArgument, {"for clients"}));
  options.address = "localhost";
  EXPECT_TRUE(IsError(StageServer().Start(options), ErrorCode::kInvalidArgument, {"port"}));
  options.address = "127.0.0.1:0";
  options.hosts = {&other.host, &other.host};
  EXPECT_TRUE(IsError(StageServer().Start(options), ErrorCode::kInvalidArgument, {"two stages"}));
  options.hosts = {};
  EXPECT_TRUE(IsError(StageServer().Start(options), ErrorCode::kInvalidArgument, {"no stage"}));
  EXPECT_TRUE(IsError(first.server.Start(Options()), ErrorCode::kInvalidArgument, {"already"}));
}

TEST_F(Tls, CarriesCallsWithASecret) {
  const TestCertificate certificate;
  ServerOptions options = Options();
  options.secret = "s3cret";
  options.tls = {certificate.certificate(), certificate.key()};
  Serving serving(options);
  const auto link =
      MustAttach(serving.address, {.secret = "s3cret", .tls_ca_file = certificate.certificate()});
  ASSERT_TRUE(link);
  EXPECT_TRUE(link->Clear(kLaneA));
  EXPECT_TRUE(
      IsError(Connect(serving.address, {.secret = "x", .tls_ca_file = certificate.certificate()}),
              ErrorCode::kInvalidArgument, {serving.address, "wrong secret"}));
}

TEST_F(Tls, AServerOfAnotherCertificateIsNotTrusted) {
  const TestCertificate certificate;
  const TestCertificate other;
  ServerOptions options = Options();
  options.tls = {certificate.certificate(), certificate.key()};
  Serving serving(options);
  EXPECT_TRUE(IsError(Connect(serving.address, {.tls_ca_file = other.certificate()}),
                      ErrorCode::kUnavailable, {serving.address, "certificate", "--stage-ca"}));
}

TEST_F(Tls, ACertificateOfAnotherHostIsNotTrusted) {
  const TestCertificate certificate("10.1.2.3");
  ServerOptions options = Options();
  options.tls = {certificate.certificate(), certificate.key()};
  Serving serving(options);
  EXPECT_TRUE(IsError(Connect(serving.address, {.tls_ca_file = certificate.certificate()}),
                      ErrorCode::kUnavailable, {serving.address, "name the host", "--stage-ca"}));
}

TEST_F(Tls, APlainClientIsTold) {
  const TestCertificate certificate;
  ServerOptions options = Options();
  options.tls = {certificate.certificate(), certificate.key()};
  Serving serving(options);
  EXPECT_TRUE(IsError(Connect(serving.address, {}), ErrorCode::kUnavailable,
                      {serving.address, "TLS", "--stage-ca"}));
}

TEST_F(Tls, AClientOfAPlainServerIsTold) {
  const TestCertificate certificate;
  Serving serving(Options());
  EXPECT_TRUE(IsError(Connect(serving.address, {.tls_ca_file = certificate.certificate()}),
                      ErrorCode::kUnavailable, {serving.address, "TLS", "--stage-ca"}));
}

TEST_F(Tls, FilesThatAreNoneAreNamed) {
  const TestCertificate certificate;
  ServerOptions options = Options();
  options.tls = {certificate.certificate(), "/does/not/exist"};
  EXPECT_TRUE(IsError(StageServer().Start(options), ErrorCode::kInvalidArgument,
                      {"/does/not/exist", "--tls-key"}));
  options.tls = {certificate.Write("note.txt", "no PEM"), certificate.key()};
  EXPECT_TRUE(IsError(StageServer().Start(options), ErrorCode::kInvalidArgument,
                      {"note.txt", "--tls-cert"}));
  const TestCertificate other;
  options.tls = {certificate.certificate(), other.key()};
  EXPECT_TRUE(IsError(StageServer().Start(options), ErrorCode::kInvalidArgument,
                      {"--tls-cert", "--tls-key"}));
  EXPECT_TRUE(IsError(Connect("127.0.0.1:1", {.tls_ca_file = "/does/not/exist"}),
                      ErrorCode::kInvalidArgument, {"/does/not/exist", "--stage-ca"}));
}

}  // namespace
}  // namespace skippy::rpc
