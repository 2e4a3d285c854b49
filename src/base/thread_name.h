// Names of threads, as debuggers and process lists show them.
#pragma once

#include <pthread.h>

namespace mccl {

// Of the calling thread; at most 15 characters.
inline void name_this_thread(const char* name) {
#if defined(__APPLE__)
  pthread_setname_np(name);
#else
  pthread_setname_np(pthread_self(), name);
#endif
}

}  // namespace mccl
