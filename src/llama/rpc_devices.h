// Devices of other machines, through llama.cpp's RPC backend (its program rpc-server).
//
// llama.cpp ends the process when a server goes away while it is used: it offers no other way. So
// this is for machines that one trusts to stay; a model in stages (src/pipeline) is for the others.
#pragma once

#include <string>
#include <vector>

#include "skippy/result.h"

namespace skippy::llama {

// Registers their devices for models that are loaded from now on. Each is "host:port".
//
// kInvalidArgument: not of this form; kUnavailable: nothing listens there (told before llama.cpp is
// asked); kUnsupported: built without GGML_RPC. Cost: a connection each, some seconds at most.
Status AddRpcServers(const std::vector<std::string>& servers);

}  // namespace skippy::llama
