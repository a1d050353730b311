// SIGINT and SIGTERM: the first asks for a clean stop, the second ends the process at once.
#pragma once

namespace skippy::cli {

// Installs the handlers. Until WaitForStop is first called (the model is loading) one signal is
// enough to end the process.
void InstallStopSignals();

// Blocks until the first signal has come.
void WaitForStop();

}  // namespace skippy::cli
