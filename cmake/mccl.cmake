# Flags and the two functions that every folder uses.

add_library(mccl_flags INTERFACE)
target_compile_options(mccl_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Woverloaded-virtual -Wswitch-enum -Wundef -Wold-style-cast -ffp-contract=off
  $<$<BOOL:${MCCL_WERROR}>:-Werror>
  # GCC 12 sees an overlap in `"text" + std::string()` that cannot be (its bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
target_include_directories(mccl_flags INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
if(MCCL_SANITIZE)
  # What sanitizers add makes GCC 12 see uses of values that are not set (its bug 105562).
  target_compile_options(mccl_flags INTERFACE -fsanitize=${MCCL_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all -Wno-error=maybe-uninitialized)
  target_link_options(mccl_flags INTERFACE -fsanitize=${MCCL_SANITIZE})
endif()

# mccl_library(NAME SOURCES a.cc ... DEPENDS base ...): target mccl_NAME from this folder.
function(mccl_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_library(mccl_${name} STATIC ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPENDS PREPEND mccl_)
  target_link_libraries(mccl_${name} PUBLIC ${ARG_DEPENDS} mccl_flags PRIVATE ${ARG_LINK})
endfunction()

# mccl_test(NAME SOURCES a_test.cc ... DEPENDS ir ...): one GoogleTest program, one ctest entry.
# UNTIMED: it looks at no real time, and may run beside programs that do (scripts/run_tests.py).
function(mccl_test name)
  cmake_parse_arguments(ARG "UNTIMED" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPENDS PREPEND mccl_)
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} mccl_flags ${ARG_LINK} GTest::gtest
    GTest::gmock GTest::gtest_main Threads::Threads)
  add_test(NAME ${name} COMMAND ${name})
  set(labels gtest)  # counted by case
  if(ARG_UNTIMED)
    list(APPEND labels untimed)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS "${labels}")
endfunction()
