"""Who is compared, under which settings, and the command line that starts each."""
from dataclasses import dataclass, replace

# Stand in a flag for: a folder of the server's own that lives as long as its `Server`; the port of a helper, in its
# own command; the addresses of all helpers, in the server's.
SCRATCH = "{scratch}"
PORT = "{port}"
HELPERS = "{helpers}"


@dataclass(frozen=True)
class Settings:
    """What both servers get alike."""
    model: str
    context: int = 4096        # positions a conversation
    lanes: int = 1             # conversations at once
    threads: int = 2
    ubatch: int = 256          # tokens of one forward pass of a prefill
    type_k: str = "f16"
    type_v: str = "f16"
    cache_ram: int = 8192      # MiB


@dataclass(frozen=True)
class Contestant:
    label: str
    kind: str                  # "skippy", "llama-server", or "stages": skippy over a model cut into stages
    binary: str
    extra: tuple = ()
    helpers: tuple = ()        # commands of processes that it needs and that listen on PORT, started before it
    packages: str = ""         # "stages": the folder that the model was cut into

    def command(self, settings, port):
        shared = ["-t", settings.threads, "-tb", settings.threads, "-ub", settings.ubatch, "-fa", "on",
                  "-ctk", settings.type_k, "-ctv", settings.type_v, "--metrics", "--host", "127.0.0.1", "--port", port]
        if self.kind == "skippy":
            own = [self.binary, "serve", "--model", settings.model, "--ctx-size", settings.context,
                   "--lanes", settings.lanes, "--cache-ram", settings.cache_ram]
        elif self.kind == "stages":   # all but the addresses is the stages' own (stage_command)
            return [str(part) for part in [
                self.binary, "serve", "--model", self.packages, "--stages", HELPERS, "--cache-ram", settings.cache_ram,
                "--metrics", "--host", "127.0.0.1", "--port", port, *self.extra]]
        else:  # llama-server divides its context by its slots
            own = [self.binary, "-m", settings.model, "-c", settings.context * settings.lanes,
                   "-np", settings.lanes, "--cache-ram", settings.cache_ram, "--no-webui"]
        return [str(part) for part in [*own, *shared, *self.extra]]

    def with_flags(self, *flags):
        return replace(self, extra=(*self.extra, *map(str, flags)))


def stage_command(binary, package, settings):
    return tuple(str(part) for part in [
        binary, "stage", "serve", "--package", package, "--listen", f"127.0.0.1:{PORT}", "--ctx-size", settings.context,
        "--lanes", settings.lanes, "--cache-ram", settings.cache_ram, "-t", settings.threads, "-tb", settings.threads,
        "-ub", settings.ubatch, "-fa", "on", "-ctk", settings.type_k, "-ctv", settings.type_v])
