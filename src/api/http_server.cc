#include "api/http_server.h"

#include <cpp-httplib/httplib.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "api/tenant.h"

namespace skippy::api {
namespace {

constexpr const char* kJson = "application/json; charset=utf-8";

Dialect DialectOf(std::string_view path) {
  return path.starts_with("/v1/messages") ? Dialect::kAnthropic : Dialect::kOpenAi;
}

// `pattern` is a path in which one last segment may be a ":name" that stands for anything but a
// slash.
bool PathMatches(std::string_view pattern, std::string_view path) {
  const std::size_t colon = pattern.find("/:");
  if (colon == std::string_view::npos) return pattern == path;
  const std::string_view fixed = pattern.substr(0, colon + 1);
  return path.starts_with(fixed) && path.size() > fixed.size() &&
         path.find('/', fixed.size()) == std::string_view::npos;
}

// http://localhost, http://127.0.0.1 or http://[::1], any scheme and port.
bool IsLocalOrigin(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return false;
  const std::string_view host = origin.substr(scheme + 3);
  for (const std::string_view local : {"localhost", "127.0.0.1", "[::1]"}) {
    if (host == local) return true;
    if (host.starts_with(local) && host[local.size()] == ':') return true;
  }
  return false;
}

HttpRequest ToRequest(const httplib::Request& from, std::string key) {
  HttpRequest request;
  request.method = from.method;
  request.path = from.path;
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
  to.set_chunked_content_provider(response.content_type, [next = std::move(response.next)](
                                                             std::size_t, httplib::DataSink& sink) {
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
  explicit Impl(HttpOptions options) : options_(std::move(options)) {}

  Status Bind();
  void Start() {
    for (const auto& listener : listeners_) {
      httplib::Server& server = listener->server;
      listener->thread = std::thread([&server] { server.listen_after_bind(); });
      server.wait_until_ready();
    }
  }
  void Publish(std::vector<Route> routes) {
    routes_ = std::move(routes);
    ready_.store(true, std::memory_order_release);
  }
  void Stop() {
    for (const auto& listener : listeners_) listener->server.stop();
    for (const auto& listener : listeners_) {
      if (listener->thread.joinable()) listener->thread.join();
    }
  }
  int port() const { return port_; }

 private:
  struct Listener {  // of one address
    httplib::Server server;
    std::thread thread;
  };

  void Configure(httplib::Server& server);
  Status BindOne(const std::string& host);
  HttpResponse Answer(const httplib::Request& request, std::string body) const;
  bool ReadBody(const httplib::Request& request, const httplib::ContentReader& read,
                std::string& body) const;
  void AllowOrigin(const httplib::Request& request, httplib::Response& response) const;
  // The checked key of a request; no value: it has none that is valid.
  std::optional<std::string> CheckKey(const httplib::Request& request) const;

  HttpOptions options_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  int port_ = 0;
  std::vector<Route> routes_;  // written once, before ready_
  std::atomic<bool> ready_{false};
};

std::optional<std::string> HttpServer::Impl::CheckKey(const httplib::Request& request) const {
  if (options_.api_keys.empty()) return std::string();
  std::string given = KeyFromHeaders(request.get_header_value("Authorization"),
                                     request.get_header_value("X-Api-Key"));
  bool valid = false;
  for (const std::string& key : options_.api_keys) valid = SameKey(key, given) || valid;
  if (!valid) return std::nullopt;
  return given;
}

HttpResponse HttpServer::Impl::Answer(const httplib::Request& request, std::string body) const {
  const Dialect dialect = DialectOf(request.path);
  if (!ready_.load(std::memory_order_acquire))
    return ErrorResponse(Unavailable("Loading model"), dialect);
  const Route* route = nullptr;
  bool path_known = false;
  for (const Route& candidate : routes_) {
    if (!PathMatches(candidate.path, request.path)) continue;
    path_known = true;
    const bool head = request.method == "HEAD" && candidate.method == "GET";
    if (candidate.method == request.method || head) route = &candidate;
  }
  std::optional<std::string> key = CheckKey(request);
  if (!key && !(route != nullptr && route->open)) return ErrorResponse(FromStatus(401), dialect);
  if (route == nullptr) return ErrorResponse(FromStatus(path_known ? 405 : 404), dialect);
  HttpRequest asked = ToRequest(request, std::move(key).value_or(""));
  asked.body = std::move(body);
  return route->handle(asked);
}

// A body over the limit is read to its end and thrown away: a client that is still sending when the
// connection closes would see a reset instead of the reason. False: it was over the limit.
bool HttpServer::Impl::ReadBody(const httplib::Request& request, const httplib::ContentReader& read,
                                std::string& body) const {
  if (request.is_multipart_form_data()) {  // no route takes one; the parts are read and dropped
    read([](const httplib::FormData&) { return true; },
         [](const char*, std::size_t) { return true; });
    return true;
  }
  std::size_t size = 0;
  read([&](const char* data, std::size_t length) {
    size += length;
    if (size <= options_.max_body_bytes) body.append(data, length);
    return true;
  });
  return size <= options_.max_body_bytes;
}

// Browsers may read answers only for pages of this machine, unless told otherwise: another page
// could ask the cache what has been said before.
void HttpServer::Impl::AllowOrigin(const httplib::Request& request,
                                   httplib::Response& response) const {
  const std::string origin = request.get_header_value("Origin");
  if (origin.empty()) return;
  const bool any = options_.cors_origins == "*";
  const bool listed =
      !any && options_.cors_origins != "localhost" && options_.cors_origins == origin;
  if (!any && !listed && !IsLocalOrigin(origin)) return;
  response.set_header("Access-Control-Allow-Origin", origin);
  response.set_header("Vary", "Origin");
}

void HttpServer::Impl::Configure(httplib::Server& server) {
  server.set_default_headers({{"Server", "skippy"}});
  // The limit itself is ReadBody's; past this one a connection is simply closed.
  server.set_payload_max_length(options_.max_body_bytes + (std::size_t{256} << 20U));
  server.set_read_timeout(options_.timeout_seconds);
  server.set_write_timeout(options_.timeout_seconds);
  server.set_tcp_nodelay(true);
  server.set_keep_alive_max_count(1'000'000);  // a busy client keeps its connection
  server.new_task_queue = [threads = options_.max_threads] {
    return new httplib::ThreadPool(std::min<std::size_t>(8, threads), threads);  // httplib owns it
  };
  // Not SO_REUSEPORT, httplib's default: a second server on the same port must fail, not share it.
  server.set_socket_options([](socket_t socket) {
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
  const auto fill = [](const httplib::Request& request, httplib::Response& response) {
    response.set_content(ErrorBody(FromStatus(response.status), DialectOf(request.path)), kJson);
  };
  server.set_error_handler([fill](const httplib::Request& request, httplib::Response& response) {
    if (response.body.empty()) fill(request, response);
  });
  server.set_exception_handler(
      [fill](const httplib::Request& request, httplib::Response& response, std::exception_ptr) {
        response.status = 500;
        fill(request, response);
      });
  const auto plain = [this](const httplib::Request& request, httplib::Response& response) {
    AllowOrigin(request, response);
    Send(Answer(request, {}), response);
  };
  const auto with_body = [this](const httplib::Request& request, httplib::Response& response,
                                const httplib::ContentReader& read) {
    AllowOrigin(request, response);
    std::string body;
    if (ReadBody(request, read, body)) {
      Send(Answer(request, std::move(body)), response);
    } else {
      Send(ErrorResponse(FromStatus(413), DialectOf(request.path)), response);
    }
  };
  server.Get(".*", plain);
  server.Options(".*", [this](const httplib::Request& request, httplib::Response& response) {
    AllowOrigin(request, response);
    response.set_header("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    response.set_header("Access-Control-Allow-Headers", "*");
    response.set_header("Access-Control-Allow-Credentials", "true");
    response.status = 200;
  });
  server.Post(".*", with_body);
  server.Put(".*", with_body);
  server.Patch(".*", with_body);
  server.Delete(".*", with_body);
}

Status HttpServer::Impl::Bind() {
  port_ = options_.port;
  for (const std::string& host : options_.hosts) SKIPPY_RETURN_IF_ERROR(BindOne(host));
  return {};
}

// The first address chooses the port if any will do.
Status HttpServer::Impl::BindOne(const std::string& host) {
  listeners_.push_back(std::make_unique<Listener>());
  httplib::Server& server = listeners_.back()->server;
  Configure(server);
  errno = 0;
  const int port = port_ == 0                         ? server.bind_to_any_port(host)
                   : server.bind_to_port(host, port_) ? port_
                                                      : -1;
  if (port > 0) {
    port_ = port;
    return {};
  }
  const int code = errno;
  const std::string why = code == EADDRINUSE      ? "the port is taken by another process"
                          : code == EACCES        ? "this user may not use that port"
                          : code == EADDRNOTAVAIL ? "this machine does not have that address"
                          : code != 0
                              ? std::string(std::strerror(code))
                              : "the host name does not resolve to an address of this machine";
  return Err(ErrorCode::kInvalidArgument,
             fmt::format("cannot listen on {}:{}: {}", host, port_, why));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() { impl_->Stop(); }

Result<std::unique_ptr<HttpServer>> HttpServer::Bind(const HttpOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  SKIPPY_RETURN_IF_ERROR(impl->Bind());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

int HttpServer::port() const { return impl_->port(); }
void HttpServer::Start() { impl_->Start(); }
void HttpServer::Publish(std::vector<Route> routes) { impl_->Publish(std::move(routes)); }
void HttpServer::Stop() { impl_->Stop(); }

}  // namespace skippy::api
