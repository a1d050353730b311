// What no client or server of ours sends: each side refuses it and lives on.
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <functional>

#include "rpc/messages.h"
#include "rpc/rpc_testing.h"
#include "rpc/status.h"
#include "stage.grpc.pb.h"

namespace skippy::rpc {
namespace {

using grpc::StatusCode;

testing::AssertionResult Refused(const grpc::Status& status, StatusCode code, const char* word) {
  if (status.error_code() != code || status.error_message().find(word) == std::string::npos)
    return testing::AssertionFailure() << status.error_code() << ": " << status.error_message();
  return testing::AssertionSuccess();
}

class Malformed : public testing::Test {
 protected:
  void SetUp() override {
    v1::AttachRequest request;
    request.set_schema_version(kSchemaVersion);
    *request.mutable_layers() = ToMessage(stage_.host.package().layers);
    grpc::ClientContext context;
    v1::AttachResponse response;
    ASSERT_TRUE(stub_->Attach(&context, request, &response).ok());
    session_ = response.stage().session();
  }

  template <class Request, class Response>
  grpc::Status Call(grpc::Status (v1::Stage::Stub::*method)(grpc::ClientContext*, const Request&,
                                                            Response*),
                    Request request) {
    if (!request.has_call()) {
      *request.mutable_call()->mutable_layers() = ToMessage(stage_.host.package().layers);
      request.mutable_call()->set_session(session_);
      request.mutable_call()->set_number(++calls_);
    }
    grpc::ClientContext context;
    Response response;
    return (stub_.get()->*method)(&context, request, &response);
  }
  grpc::Status Decode(const v1::DecodeRequest& request) {
    return Call(&v1::Stage::Stub::Decode, request);
  }
  v1::DecodeRequest OneItem(std::size_t rows) {
    v1::DecodeRequest request;
    request.add_items()->set_rows(PackLogits(Rows(rows, stage_.runtime.input_width())));
    return request;
  }
  // A message of whatever bytes.
  grpc::Status Raw(const std::string& method, const std::string& bytes) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const grpc::Slice slice(bytes);
    const auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return status;
  }

  Stage stage_{Layers(kModel, 0, 2)};
  Serving serving_{{.address = "127.0.0.1:0", .hosts = {&stage_.host}, .pieces = &stage_.store}};
  const std::shared_ptr<grpc::Channel> channel_ =
      grpc::CreateChannel(serving_.address, grpc::InsecureChannelCredentials());
  const std::unique_ptr<v1::Stage::Stub> stub_ = v1::Stage::NewStub(channel_);
  std::uint64_t session_ = 0;
  std::uint64_t calls_ = 0;
};

TEST_F(Malformed, RowsThatAreNone) {
  const std::uint32_t chunk = stage_.host.info().chunk;
  EXPECT_TRUE(Refused(Decode({}), StatusCode::INVALID_ARGUMENT, "nothing"));
  v1::DecodeRequest bad = OneItem(1);
  bad.mutable_items(0)->mutable_rows()->pop_back();
  EXPECT_TRUE(Refused(Decode(bad), StatusCode::INVALID_ARGUMENT, "47 bytes"));
  EXPECT_TRUE(Refused(Decode(OneItem(0)), StatusCode::INVALID_ARGUMENT, "0 rows"));
  EXPECT_TRUE(Refused(Decode(OneItem(chunk + 1)), StatusCode::INVALID_ARGUMENT, "17 rows"));
  bad = OneItem(2);
  bad.mutable_items(0)->set_pos(0xffffffff);
  EXPECT_TRUE(Refused(Decode(bad), StatusCode::INVALID_ARGUMENT, "4294967295"));
  bad = OneItem(2);
  bad.mutable_items(0)->set_pos(stage_.host.info().context - 1);
  EXPECT_TRUE(Refused(Decode(bad), StatusCode::INVALID_ARGUMENT, "context"));
  bad = OneItem(1);
  bad.mutable_items(0)->set_lane(0xffffffff);
  EXPECT_TRUE(Refused(Decode(bad), StatusCode::INVALID_ARGUMENT, "lane"));
  bad = OneItem(1);
  bad.set_wire(static_cast<v1::WireFormat>(9));
  EXPECT_TRUE(Refused(Decode(bad), StatusCode::INVALID_ARGUMENT, "wire format 9"));
  bad = OneItem(1);
  for (int i = 0; i < 2; ++i) *bad.add_items() = bad.items(0);
  EXPECT_TRUE(Refused(Decode(bad), StatusCode::INVALID_ARGUMENT, "3 items"));
  // An int8 row with an outlier beyond its end.
  bad = OneItem(1);
  bad.set_wire(v1::WIRE_FORMAT_INT8);
  bad.mutable_items(0)->set_rows(
      std::string(pipeline::WireBytes(pipeline::WireFormat::kInt8, 12), '\xff'));
  EXPECT_TRUE(Refused(Decode(bad), StatusCode::INVALID_ARGUMENT, "outlier"));
  EXPECT_TRUE(Decode(OneItem(2)).ok());
}

TEST_F(Malformed, CallsOfNoSession) {
  v1::ClearRequest bad;
  bad.mutable_call();
  EXPECT_TRUE(Refused(Call(&v1::Stage::Stub::Clear, bad), StatusCode::UNAVAILABLE, "0..2"));
  *bad.mutable_call()->mutable_layers() = ToMessage(pipeline::LayerRange{0, 2});
  bad.mutable_call()->set_number(1);
  EXPECT_TRUE(Refused(Call(&v1::Stage::Stub::Clear, bad), StatusCode::UNAVAILABLE, "session"));
  bad.mutable_call()->set_session(session_);
  EXPECT_TRUE(Call(&v1::Stage::Stub::Clear, bad).ok());
  EXPECT_TRUE(Refused(Call(&v1::Stage::Stub::Clear, bad), StatusCode::CANCELLED, "later call"));
}

TEST_F(Malformed, AttachOfAnotherVersionOrStage) {
  const auto attach = [&](const v1::AttachRequest& request) {
    grpc::ClientContext context;
    v1::AttachResponse response;
    return stub_->Attach(&context, request, &response);
  };
  v1::AttachRequest bad;
  EXPECT_TRUE(Refused(attach(bad), StatusCode::FAILED_PRECONDITION, "version 0"));
  bad.set_schema_version(kSchemaVersion);
  EXPECT_TRUE(Refused(attach(bad), StatusCode::NOT_FOUND, "0..2"));
  // Neither took the session.
  EXPECT_TRUE(Decode(OneItem(1)).ok());
}

TEST_F(Malformed, PiecesThatCannotBe) {
  ASSERT_TRUE(Decode(OneItem(4)).ok());
  const v1::PieceKey good = ToMessage(pipeline::PieceKey{Digest{}, Component::kKv, {0, 4}});
  const auto keep = [&](const v1::PieceKey& piece, std::uint32_t lane = 0) {
    v1::KeepRequest request;
    request.set_lane(lane);
    *request.mutable_piece() = piece;
    return Call(&v1::Stage::Stub::Keep, request);
  };
  ASSERT_TRUE(keep(good).ok());
  EXPECT_TRUE(Refused(keep({}), StatusCode::INVALID_ARGUMENT, "0 bytes"));
  v1::PieceKey bad = good;
  bad.set_component(static_cast<v1::Component>(3));
  EXPECT_TRUE(Refused(keep(bad), StatusCode::INVALID_ARGUMENT, "component 3"));
  bad = good;
  bad.mutable_positions()->set_end(5);
  EXPECT_TRUE(Refused(keep(bad), StatusCode::INVALID_ARGUMENT, "ends at 4"));
  bad.mutable_positions()->set_end(0xffffffff);
  EXPECT_TRUE(Refused(keep(bad), StatusCode::INVALID_ARGUMENT, "context"));
  EXPECT_TRUE(Refused(keep(good, 2), StatusCode::INVALID_ARGUMENT, "lane 2"));

  v1::HeldRequest held;
  for (std::uint32_t i = 0; i < 2 * stage_.host.info().context + 2; ++i) *held.add_pieces() = good;
  EXPECT_TRUE(Refused(Call(&v1::Stage::Stub::Held, held), StatusCode::INVALID_ARGUMENT, "pieces"));
  held.mutable_pieces()->RemoveLast();
  EXPECT_TRUE(Call(&v1::Stage::Stub::Held, held).ok());

  v1::FindRequest find;
  find.add_names("short");
  EXPECT_TRUE(Refused(Call(&v1::Stage::Stub::Find, find), StatusCode::INVALID_ARGUMENT, "5 bytes"));
  for (std::uint32_t i = 0; i < 2 * stage_.host.info().context + 1; ++i) *find.add_names() = "x";
  EXPECT_TRUE(Refused(Call(&v1::Stage::Stub::Find, find), StatusCode::INVALID_ARGUMENT, "names"));

  const auto restore = [&](const std::function<void(v1::RestoreRequest&)>& spoil) {
    v1::RestoreRequest request;
    request.set_end(4);
    v1::PieceSlice& slice = *request.add_kv();
    *slice.mutable_piece() = good;
    slice.mutable_positions()->set_end(4);
    spoil(request);
    return Call(&v1::Stage::Stub::Restore, request);
  };
  EXPECT_TRUE(Refused(restore([](v1::RestoreRequest& bad_one) { bad_one.set_end(513); }),
                      StatusCode::INVALID_ARGUMENT, "513"));
  EXPECT_TRUE(Refused(restore([](v1::RestoreRequest& bad_one) {
                        bad_one.mutable_kv(0)->mutable_positions()->set_end(5);
                      }),
                      StatusCode::INVALID_ARGUMENT, "0..5"));
  EXPECT_TRUE(Refused(restore([](v1::RestoreRequest& bad_one) { bad_one.mutable_snapshot(); }),
                      StatusCode::INVALID_ARGUMENT, "0 bytes"));
  EXPECT_TRUE(Refused(restore([](v1::RestoreRequest& bad_one) {
                        for (int i = 0; i < 512; ++i) *bad_one.add_window() = bad_one.kv(0);
                        *bad_one.add_window() = bad_one.kv(0);
                      }),
                      StatusCode::INVALID_ARGUMENT, "513 pieces"));
  EXPECT_TRUE(Refused(restore([](v1::RestoreRequest& bad_one) { bad_one.set_lane(2); }),
                      StatusCode::INVALID_ARGUMENT, "lane 2"));
}

TEST_F(Malformed, ARestoreThatCannotBeReadEmptiesTheLaneToo) {
  ASSERT_TRUE(Decode(OneItem(4)).ok());
  ASSERT_EQ(stage_.runtime.End(kLaneA), 4U);
  v1::RestoreRequest bad;
  bad.mutable_snapshot();
  EXPECT_TRUE(
      Refused(Call(&v1::Stage::Stub::Restore, bad), StatusCode::INVALID_ARGUMENT, "0 bytes"));
  EXPECT_EQ(stage_.runtime.End(kLaneA), 0U);
}

TEST_F(Malformed, PiecesThatNobodyFetches) {
  const auto fetch = [&](const v1::FetchRequest& request) {
    grpc::ClientContext context;
    const auto reader = stub_->Fetch(&context, request);
    v1::FetchResponse response;
    EXPECT_FALSE(reader->Read(&response));
    return reader->Finish();
  };
  v1::FetchRequest bad;
  EXPECT_TRUE(fetch(bad).ok());
  bad.add_names("short");
  EXPECT_TRUE(Refused(fetch(bad), StatusCode::INVALID_ARGUMENT, "5 bytes"));
  for (std::uint32_t i = 0; i < 2 * stage_.host.info().context + 1; ++i) *bad.add_names() = "x";
  EXPECT_TRUE(Refused(fetch(bad), StatusCode::INVALID_ARGUMENT, "names"));
  bad.clear_names();
  for (std::uint32_t i = 0; i < 5; ++i) bad.add_layers(i);
  EXPECT_TRUE(Refused(fetch(bad), StatusCode::INVALID_ARGUMENT, "5 layers"));
}

TEST_F(Malformed, BytesThatAreNoMessage) {
  EXPECT_EQ(Raw("/skippy.stage.v1.Stage/Decode", "\xff\xff\xff\xff").error_code(),
            StatusCode::INTERNAL);
  EXPECT_EQ(Raw("/skippy.stage.v1.Stage/Nothing", "").error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(
      Raw("/skippy.stage.v1.Stage/Decode", std::string(std::size_t{9} << 20U, 'x')).error_code(),
      StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Decode(OneItem(2)).ok());
}

// A server that answers what it was told to.
class ScriptedService final : public v1::Stage::Service {
 public:
  grpc::Status List(grpc::ServerContext*, const v1::ListRequest*, v1::ListResponse* out) override {
    *out = list;
    return grpc::Status::OK;
  }
  grpc::Status Attach(grpc::ServerContext*, const v1::AttachRequest*,
                      v1::AttachResponse* out) override {
    *out = attach;
    return grpc::Status::OK;
  }
  grpc::Status Decode(grpc::ServerContext*, const v1::DecodeRequest*,
                      v1::DecodeResponse* out) override {
    *out = decode;
    return grpc::Status::OK;
  }
  grpc::Status Clear(grpc::ServerContext* context, const v1::ClearRequest*,
                     v1::ClearResponse*) override {
    return ToStatus(*context, error);
  }
  grpc::Status Held(grpc::ServerContext*, const v1::HeldRequest*, v1::HeldResponse* out) override {
    out->add_held(true);
    return grpc::Status::OK;
  }

  grpc::Status Find(grpc::ServerContext*, const v1::FindRequest*, v1::FindResponse* out) override {
    out->add_pieces();
    return grpc::Status::OK;
  }

  grpc::Status Fetch(grpc::ServerContext*, const v1::FetchRequest*,
                     grpc::ServerWriter<v1::FetchResponse>* writer) override {
    writer->Write(fetch);
    return grpc::Status::OK;
  }

  v1::ListResponse list;
  v1::FetchResponse fetch;
  v1::AttachResponse attach;
  v1::DecodeResponse decode;
  Error error{ErrorCode::kInternal, ""};
};

class LyingServer : public testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_TRUE(server_);
    address_ = "127.0.0.1:" + std::to_string(port);
    service_.list.set_schema_version(kSchemaVersion);
    *service_.list.add_stages() = ToMessage(stage_.host.package());
    service_.attach.set_schema_version(kSchemaVersion);
    *service_.attach.mutable_stage() = ToMessage(*stage_.host.Attach());
  }
  void TearDown() override { server_->Shutdown(); }

  Stage stage_{Layers(kModel, 2, 4)};
  ScriptedService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST_F(LyingServer, EveryErrorCrossesWhole) {
  const auto link = MustAttach(address_);
  ASSERT_TRUE(link);
  int codes = 0;
  for (; ErrorCodeName(static_cast<ErrorCode>(codes)) != std::string("unknown"); ++codes) {
    service_.error = {static_cast<ErrorCode>(codes), "what \xe2\x80\x93 50% of\nit"};
    const Status status = link->Clear(kLaneA);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, service_.error.code);
    EXPECT_EQ(status.error().message, link->address() + ": " + service_.error.message);
  }
  EXPECT_GE(codes, 8);
  // A long one is cut, and not within a character.
  service_.error.message = "x";
  for (int i = 0; i < 4000; ++i) service_.error.message += "\xc3\xa4";
  const Status status = link->Clear(kLaneA);
  ASSERT_FALSE(status);
  const std::string& message = status.error().message;
  EXPECT_GT(message.size(), 1000U);
  EXPECT_TRUE(message.ends_with("\xc3\xa4...")) << message.substr(message.size() - 8);
}

TEST_F(LyingServer, AnotherVersionIsRefused) {
  service_.attach.set_schema_version(kSchemaVersion + 1);
  const Links links = MustConnect(address_);
  ASSERT_EQ(links.size(), 1U);
  EXPECT_TRUE(IsError(links.front()->Attach(), ErrorCode::kUnsupported,
                      {links.front()->address(), "version 2", "same release"}));
  service_.list.set_schema_version(kSchemaVersion + 1);
  EXPECT_TRUE(IsError(Connect(address_, {}), ErrorCode::kUnsupported, {address_, "version 2"}));
}

TEST_F(LyingServer, AnswersThatDoNotFitAreRefused) {
  const auto link = MustAttach(address_);
  ASSERT_TRUE(link);
  const std::vector<float> rows = Rows(2, stage_.runtime.input_width());
  const auto refused = [&](const char* word) {
    return IsError(link->Decode(std::vector<runtime::RowsItem>{{kLaneA, 0, rows, true}}),
                   ErrorCode::kInternal, {link->address(), "malformed", word});
  };
  EXPECT_TRUE(refused("0 lanes and 0 logits"));
  service_.decode.add_lanes();
  service_.decode.add_logits("12345");
  EXPECT_TRUE(refused("5 bytes"));
  service_.decode.set_logits(0, PackLogits(std::vector<float>(63)));
  EXPECT_TRUE(refused("63 logits"));
  service_.decode.set_rows("1234");
  EXPECT_TRUE(refused("rows of a stage that gives logits"));
  EXPECT_TRUE(IsError(link->Held(std::vector<pipeline::PieceKey>(2)), ErrorCode::kInternal,
                      {"1 of 2 pieces"}));
  EXPECT_TRUE(IsError(link->Find({}), ErrorCode::kInternal, {"malformed", "0 bytes"}));

  service_.attach.mutable_stage()->set_output_width(12);
  ASSERT_TRUE(link->Attach());
  service_.decode.clear_logits();
  service_.decode.set_rows(PackLogits(Rows(1, 12)));
  EXPECT_TRUE(refused("12 values are not 2 rows"));
  service_.decode.set_rows("12345");
  EXPECT_TRUE(refused("5 bytes"));
  service_.attach.mutable_stage()->mutable_package()->set_model("x");
  EXPECT_TRUE(IsError(link->Attach(), ErrorCode::kInternal, {"malformed", "model"}));
  service_.list.mutable_stages(0)->clear_layers();
  EXPECT_TRUE(IsError(Connect(address_, {}), ErrorCode::kInternal, {"malformed", "0..0"}));
}

TEST_F(LyingServer, PiecesThatNobodyAskedForAreRefused) {
  const auto source = PiecesAt(address_, {});
  ASSERT_TRUE(source);
  const std::vector<Digest> names(1);
  const std::vector<std::uint32_t> layers = {2, 3};
  const auto refused = [&](const char* word) {
    return IsError((*source)->Fetch(names, layers), ErrorCode::kInternal,
                   {address_, "malformed", word});
  };
  EXPECT_TRUE(refused("0 bytes"));
  *service_.fetch.mutable_piece() = ToMessage(pipeline::PieceKey{names[0], Component::kKv, {0, 4}});
  EXPECT_TRUE(refused("not asked for"));
  service_.fetch.set_layer(3);
  EXPECT_TRUE((*source)->Fetch(names, layers));
  service_.fetch.mutable_piece()->mutable_name()->back() = 'x';
  EXPECT_TRUE(refused("not asked for"));
}

TEST_F(LyingServer, BeforeAttachNothingIsDecoded) {
  const Links links = MustConnect(address_);
  ASSERT_EQ(links.size(), 1U);
  const std::vector<float> rows = Rows(1, stage_.runtime.input_width());
  EXPECT_TRUE(IsError(links.front()->Decode(std::vector<runtime::RowsItem>{{kLaneA, 0, rows}}),
                      ErrorCode::kUnavailable, {links.front()->address(), "not attached"}));
}

}  // namespace
}  // namespace skippy::rpc
