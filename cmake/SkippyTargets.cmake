# skippy_library / skippy_test: one place for warnings, sanitizers and include folders.
find_package(Threads REQUIRED)

add_library(skippy_options INTERFACE)
target_include_directories(skippy_options INTERFACE "${CMAKE_SOURCE_DIR}/include" "${CMAKE_SOURCE_DIR}/src")
target_compile_definitions(skippy_options INTERFACE FMT_HEADER_ONLY SPDLOG_FMT_EXTERNAL)
if(SKIPPY_SANITIZE)
  target_compile_options(skippy_options INTERFACE -fsanitize=${SKIPPY_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(skippy_options INTERFACE -fsanitize=${SKIPPY_SANITIZE})
endif()
find_program(MOLD mold)
if(MOLD)
  target_link_options(skippy_options INTERFACE -fuse-ld=mold)
endif()

set(SKIPPY_WARNINGS -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Werror)

# skippy_library(NAME SOURCES... [DEPENDS ...] [SYSTEM_DEPENDS ...])
# SYSTEM_DEPENDS are foreign targets: their headers do not have to survive our warnings.
function(skippy_library name)
  cmake_parse_arguments(PARSE_ARGV 1 LIB "" "" "SOURCES;DEPENDS;SYSTEM_DEPENDS")
  add_library(${name} STATIC ${LIB_SOURCES})
  target_compile_options(${name} PRIVATE ${SKIPPY_WARNINGS})
  target_link_libraries(${name} PUBLIC skippy_options ${LIB_DEPENDS})
  foreach(dependency IN LISTS LIB_SYSTEM_DEPENDS)
    target_link_libraries(${name} PUBLIC ${dependency})
    if(TARGET ${dependency})
      target_include_directories(${name} SYSTEM PUBLIC
        $<TARGET_PROPERTY:${dependency},INTERFACE_INCLUDE_DIRECTORIES>)
    endif()
  endforeach()
endfunction()

# skippy_test(NAME SOURCES ... DEPENDS ... [LABELS ...]): one GoogleTest binary, one ctest entry a test case.
function(skippy_test name)
  if(NOT SKIPPY_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 T "" "TIMEOUT" "SOURCES;DEPENDS;LABELS")
  find_package(GTest REQUIRED)
  if(NOT T_LABELS)
    set(T_LABELS unit)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  add_executable(${name} ${T_SOURCES})
  target_compile_options(${name} PRIVATE ${SKIPPY_WARNINGS})
  target_link_libraries(${name} PRIVATE ${T_DEPENDS} skippy_options GTest::gtest GTest::gmock GTest::gtest_main)
  include(GoogleTest)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${name}."
    # Property tests run the same cases everywhere; run the binary by hand for fresh seeds.
    PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT} ENVIRONMENT "RC_PARAMS=seed=1")
endfunction()
