"""Who is compared, under which settings, and the command line that starts each."""
from dataclasses import dataclass

# Stands in a flag for a folder of the server's own that lives as long as its `Server`.
SCRATCH = "{scratch}"


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
    kind: str                  # "skippy" or "llama-server"
    binary: str
    extra: tuple = ()

    def command(self, settings, port):
        shared = ["-t", settings.threads, "-tb", settings.threads, "-ub", settings.ubatch, "-fa", "on",
                  "-ctk", settings.type_k, "-ctv", settings.type_v, "--metrics", "--host", "127.0.0.1", "--port", port]
        if self.kind == "skippy":
            own = [self.binary, "serve", "--model", settings.model, "--ctx-size", settings.context,
                   "--lanes", settings.lanes, "--cache-ram", settings.cache_ram]
        else:  # llama-server divides its context by its slots
            own = [self.binary, "-m", settings.model, "-c", settings.context * settings.lanes,
                   "-np", settings.lanes, "--cache-ram", settings.cache_ram, "--no-webui"]
        return [str(part) for part in [*own, *shared, *self.extra]]

    def with_flags(self, *flags):
        return Contestant(self.label, self.kind, self.binary, (*self.extra, *map(str, flags)))
