// The gRPC library in this process: held until the process ends, and quiet.
#pragma once

namespace skippy::rpc {

// Before anything of gRPC is used; any number of times, from any thread.
void UseGrpc();

}  // namespace skippy::rpc
