// skippy certify --model M.gguf: evidence that kept state gives what a cold run gives.
#include "cli/certify_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "certify/certificate_store.h"
#include "certify/certify.h"
#include "certify/report.h"
#include "cli/certify_subject.h"
#include "cli/commands.h"
#include "cli/outcome.h"
#include "cli/progress_line.h"

namespace skippy::cli {
namespace {

using certify::Certificate;

int Fail(const Error& error) { return FailedWith("skippy certify", error); }

Result<Certificate> Try(const CertifyOptions& options) {
  llama::ModelOptions file;
  file.path = options.model.file;
  file.gpu_layers = options.model.gpu_layers;
  file.rpc_servers = options.model.rpc_servers;
  file.use_mmap = options.model.use_mmap;
  SKIPPY_TRY(const std::unique_ptr<llama::Model> model, llama::Model::Load(file));
  LlamaSubject subject(*model, options.model.file);
  const ProgressLine line;
  const auto progress = [&line](std::size_t done, std::size_t total, std::string_view next) {
    line(done, total, next);
  };
  if (options.quick) {
    SKIPPY_TRY(const auto runtime, subject.NewRuntime(options.model.runtime));
    certify::QuickSettings settings;
    settings.exactness = options.exactness;
    settings.seed = options.seed;
    settings.progress = progress;
    const certify::TextSource text = [&subject](std::size_t count, std::uint64_t seed) {
      return subject.Text(count, seed);
    };
    return certify::QuickSelfTest(*runtime, text, settings);
  }
  certify::Settings settings;
  settings.runtime = options.model.runtime;
  settings.exactness = options.exactness;
  settings.seed = options.seed;
  settings.variations = options.variations;
  settings.progress = progress;
  return certify::Certify(subject, settings);
}

Status Put(const std::string& where, const std::string& text) {
  if (where.empty()) return {};
  if (where != "-") return certify::WriteFileWhole(where, text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

Status Tell(const CertifyOptions& options, const Certificate& certificate) {
  SKIPPY_RETURN_IF_ERROR(Put(options.json, certify::Write(certificate)));
  SKIPPY_RETURN_IF_ERROR(Put(options.markdown, certify::MarkdownReport(certificate)));
  if (options.json != "-" && options.markdown != "-")
    SKIPPY_RETURN_IF_ERROR(Put("-", certify::TextReport(certificate, options.every_row)));
  const certify::CertificateStore store(options.folder);
  std::fflush(stdout);
  SKIPPY_TRY(const std::string path, store.Save(certificate));
  std::fprintf(stderr, "certificate: %s\n", path.c_str());
  return {};
}

}  // namespace

int CertifyCommand(std::vector<std::string> arguments) {
  const auto parsed = ParseCertify(std::move(arguments));
  if (!parsed) return Fail(parsed.error());
  if (parsed->help) {
    std::printf("%s", parsed->help->c_str());
    return 0;
  }
  const CertifyOptions& options = parsed->options;
  const Result<Certificate> certificate = Try(options);
  if (!certificate) return Fail(certificate.error());
  if (const Status told = Tell(options, *certificate); !told) return Fail(told.error());
  const bool certified =
      std::all_of(options.exactness.begin(), options.exactness.end(),
                  [&](Exactness exactness) { return certificate->Certifies(exactness); });
  return certified ? 0 : 1;
}

}  // namespace skippy::cli
