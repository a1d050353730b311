#include "api/http_server.h"

#include <cpp-httplib/httplib.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "api/tenant.h"

namespace skippy::api {
namespace {

HttpRequest ToRequest(const httplib::Request& from, std::string key) {
  HttpRequest request;
  request.method = from.method;
  request.path = from.path;
  request.body = from.body;
  request.api_key = std::move(key);
  request.param = [params = from.params](const std::string& name) {
    const auto it = params.find(name);
    return it == params.end() ? std::string() : it->second;
  };
  request.closed = from.is_connection_closed;
  return request;
}

void Send(HttpResponse response, httplib::Response& to) {
  to.status = response.status;
  for (const auto& [name, value] : response.headers) to.set_header(name, value);
  if (!response.next) {
    to.set_content(std::move(response.body), response.content_type);
    return;
  }
  to.set_chunked_content_provider(
      response.content_type,
      [next = std::move(response.next)](std::size_t, httplib::DataSink& sink) {
        std::string bytes;
        const bool more = next(bytes);
        if (!bytes.empty() && !sink.write(bytes.data(), bytes.size())) return false;
        if (!more) sink.done();
        return true;
      });
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpOptions options, std::vector<Route> routes)
      : options_(std::move(options)), routes_(std::move(routes)) {}

  Status Bind();
  void Start() {
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    server_.wait_until_ready();
  }
  void Stop() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }
  int port() const { return port_; }

 private:
  void Configure();
  void Register();
  // The checked key of a request; no value: it has none that is valid.
  std::optional<std::string> CheckKey(const httplib::Request& request) const;
  Dialect DialectOf(const std::string& path) const;

  HttpOptions options_;
  std::vector<Route> routes_;
  httplib::Server server_;
  std::thread thread_;
  int port_ = 0;
};

std::optional<std::string> HttpServer::Impl::CheckKey(const httplib::Request& request) const {
  if (options_.api_keys.empty()) return std::string();
  std::string given =
      KeyFromHeaders(request.get_header_value("Authorization"), request.get_header_value("X-Api-Key"));
  bool valid = false;
  for (const std::string& key : options_.api_keys) valid = SameKey(key, given) || valid;
  if (!valid) return std::nullopt;
  return given;
}

Dialect HttpServer::Impl::DialectOf(const std::string& path) const {
  return path.rfind("/v1/messages", 0) == 0 ? Dialect::kAnthropic : Dialect::kOpenAi;
}

void HttpServer::Impl::Configure() {
  server_.set_default_headers({{"Server", "skippy"}});
  server_.set_payload_max_length(options_.max_body_bytes);
  server_.set_read_timeout(options_.read_timeout_seconds);
  server_.set_write_timeout(options_.read_timeout_seconds);
  server_.set_tcp_nodelay(true);
  server_.new_task_queue = [threads = options_.max_threads] {
    return new httplib::ThreadPool(std::min<std::size_t>(8, threads), threads);  // httplib owns it
  };
  // Not SO_REUSEPORT, httplib's default: a second server on the same port must fail, not share it.
  server_.set_socket_options([](socket_t socket) {
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
  server_.set_error_handler([this](const httplib::Request& request, httplib::Response& response) {
    if (!response.body.empty()) return;
    response.set_content(ErrorBody(FromStatus(response.status), DialectOf(request.path)),
                         "application/json; charset=utf-8");
  });
  server_.set_exception_handler(
      [this](const httplib::Request& request, httplib::Response& response, std::exception_ptr) {
        response.status = 500;
        response.set_content(ErrorBody(FromStatus(500), DialectOf(request.path)),
                             "application/json; charset=utf-8");
      });
}

void HttpServer::Impl::Register() {
  for (const Route& route : routes_) {
    auto handler = [this, &route](const httplib::Request& request, httplib::Response& response) {
      std::optional<std::string> key = route.open ? std::string() : CheckKey(request);
      if (!key) return Send(ErrorResponse(FromStatus(401), route.dialect), response);
      Send(route.handle(ToRequest(request, std::move(*key))), response);
    };
    if (route.method == "GET") {
      server_.Get(route.path, handler);
    } else {
      server_.Post(route.path, handler);
    }
  }
  // A known path with another method is 405, an unknown one 404; both only for those who have a key.
  const auto fallback = [this](const httplib::Request& request, httplib::Response& response) {
    const bool known = std::any_of(routes_.begin(), routes_.end(),
                                   [&](const Route& route) { return route.path == request.path; });
    const int status = !CheckKey(request) ? 401 : known ? 405 : 404;
    Send(ErrorResponse(FromStatus(status), DialectOf(request.path)), response);
  };
  server_.Get(".*", fallback);
  server_.Post(".*", fallback);
  server_.Put(".*", fallback);
  server_.Patch(".*", fallback);
  server_.Delete(".*", fallback);
}

Status HttpServer::Impl::Bind() {
  Configure();
  Register();
  errno = 0;
  if (options_.port == 0) {
    port_ = server_.bind_to_any_port(options_.host);
  } else if (server_.bind_to_port(options_.host, options_.port)) {
    port_ = options_.port;
  } else {
    port_ = -1;
  }
  if (port_ > 0) return {};
  const int code = errno;
  const std::string why = code == EADDRINUSE ? "the port is taken by another process"
                          : code == EACCES   ? "this user may not use that port"
                          : code == EADDRNOTAVAIL ? "this machine does not have that address"
                          : code != 0 ? std::string(std::strerror(code))
                                      : "the host name does not resolve to an address of this machine";
  return Err(ErrorCode::kInvalidArgument,
             fmt::format("cannot listen on {}:{}: {}", options_.host, options_.port, why));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() { impl_->Stop(); }

Result<std::unique_ptr<HttpServer>> HttpServer::Bind(const HttpOptions& options, std::vector<Route> routes) {
  auto impl = std::make_unique<Impl>(options, std::move(routes));
  SKIPPY_RETURN_IF_ERROR(impl->Bind());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

int HttpServer::port() const { return impl_->port(); }
void HttpServer::Start() { impl_->Start(); }
void HttpServer::Stop() { impl_->Stop(); }

}  // namespace skippy::api
