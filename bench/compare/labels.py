"""What the contestants are called, in results and in tables."""
OURS = "skippy"
COLD = "skippy, cold"                   # without a cache
DEFAULT = "llama-server"
BEST = "llama-server, best settings"
