# Finds llama.cpp's source: SKIPPY_LLAMA_SOURCE_DIR if set, else a clone of the pinned git bundle
# that the npm package node-llama-cpp carries (docs/decisions/0010). The clone lives in the user's
# cache folder so that every build folder of every checkout shares it, and ccache with it.
set(SKIPPY_LLAMA_COMMIT "de3ff815ea7d559ee917f063901b8986f038abc6")
set(SKIPPY_LLAMA_PACKAGE "node-llama-cpp@3.22.1")
set(SKIPPY_LLAMA_BUNDLE_SHA256 "5f5d1105d5df040738d87b8290e5d17e7362131cdcfdb0831618e0ea528b4a51")

set(SKIPPY_LLAMA_SOURCE_DIR "" CACHE PATH
    "llama.cpp source tree to build instead of fetching the pinned one")

function(skippy_cache_dir out)
  if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
    set(${out} "$ENV{XDG_CACHE_HOME}/skippy" PARENT_SCOPE)
  else()
    set(${out} "$ENV{HOME}/.cache/skippy" PARENT_SCOPE)
  endif()
endfunction()

function(skippy_run what)
  cmake_parse_arguments(PARSE_ARGV 1 RUN "" "WORKING_DIRECTORY" "COMMAND")
  execute_process(COMMAND ${RUN_COMMAND} WORKING_DIRECTORY "${RUN_WORKING_DIRECTORY}"
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "Cannot ${what}:\n${output}\n"
      "Set -DSKIPPY_LLAMA_SOURCE_DIR=<llama.cpp tree at ${SKIPPY_LLAMA_COMMIT}> to build without fetching, "
      "or -DSKIPPY_LLAMA=OFF to build the core alone.")
  endif()
endfunction()

function(skippy_fetch_llama out)
  if(SKIPPY_LLAMA_SOURCE_DIR)
    if(NOT EXISTS "${SKIPPY_LLAMA_SOURCE_DIR}/include/llama.h")
      message(FATAL_ERROR "SKIPPY_LLAMA_SOURCE_DIR=${SKIPPY_LLAMA_SOURCE_DIR} holds no include/llama.h")
    endif()
    set(${out} "${SKIPPY_LLAMA_SOURCE_DIR}" PARENT_SCOPE)
    return()
  endif()
  skippy_cache_dir(cache)
  string(SUBSTRING "${SKIPPY_LLAMA_COMMIT}" 0 12 short)
  set(source "${cache}/llama.cpp-${short}")
  if(NOT EXISTS "${source}/include/llama.h")
    message(STATUS "Fetching llama.cpp ${short} (${SKIPPY_LLAMA_PACKAGE}, about 35 MB)")
    file(MAKE_DIRECTORY "${cache}")
    # A folder of our own, renamed at the end: an interrupted fetch leaves nothing half-done behind.
    string(RANDOM LENGTH 12 suffix)
    set(work "${cache}/fetch-${suffix}")
    file(MAKE_DIRECTORY "${work}")
    skippy_run("fetch ${SKIPPY_LLAMA_PACKAGE} (is npm installed?)" WORKING_DIRECTORY "${work}"
      COMMAND npm pack --silent "${SKIPPY_LLAMA_PACKAGE}")
    file(GLOB archive "${work}/*.tgz")
    set(bundle "package/llama/gitRelease.bundle")
    skippy_run("unpack ${archive}" WORKING_DIRECTORY "${work}" COMMAND tar xzf "${archive}" "${bundle}")
    file(SHA256 "${work}/${bundle}" digest)
    if(NOT digest STREQUAL SKIPPY_LLAMA_BUNDLE_SHA256)
      message(FATAL_ERROR "llama.cpp bundle has digest ${digest}, expected ${SKIPPY_LLAMA_BUNDLE_SHA256}")
    endif()
    skippy_run("clone the bundle (is git installed?)" WORKING_DIRECTORY "${work}"
      COMMAND git clone --quiet "${work}/${bundle}" source)
    skippy_run("check out ${SKIPPY_LLAMA_COMMIT}" WORKING_DIRECTORY "${work}/source"
      COMMAND git checkout --quiet "${SKIPPY_LLAMA_COMMIT}")
    file(RENAME "${work}/source" "${source}")
    file(REMOVE_RECURSE "${work}")
  endif()
  set(${out} "${source}" PARENT_SCOPE)
endfunction()
