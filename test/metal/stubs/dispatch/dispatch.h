// Stands for <dispatch/dispatch.h> on Linux. Each line names the declaration that it mirrors.
#pragma once

#include <stdint.h>

#ifdef __OBJC__
// dispatch/object.h: OS_OBJECT_DECL_CLASS(dispatch_queue), an object that ARC counts
@protocol OS_dispatch_queue
@end
typedef id<OS_dispatch_queue> dispatch_queue_t;
#else
// dispatch/queue.h: the same in C
typedef struct dispatch_queue_s* dispatch_queue_t;
#endif

// dispatch/queue.h: dispatch_queue_attr_t, DISPATCH_QUEUE_SERIAL
typedef struct dispatch_queue_attr_s* dispatch_queue_attr_t;
#define DISPATCH_QUEUE_SERIAL nullptr

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __BLOCKS__
// dispatch/object.h: dispatch_block_t
typedef void (^dispatch_block_t)(void);
// dispatch/queue.h: dispatch_sync(dispatch_queue_t queue, DISPATCH_NOESCAPE dispatch_block_t block)
void dispatch_sync(dispatch_queue_t queue, __attribute__((noescape)) dispatch_block_t block);
// dispatch/queue.h: dispatch_async(dispatch_queue_t queue, dispatch_block_t block)
void dispatch_async(dispatch_queue_t queue, dispatch_block_t block);
#endif
// dispatch/queue.h: dispatch_queue_create(const char* label, dispatch_queue_attr_t attr)
dispatch_queue_t dispatch_queue_create(const char* label, dispatch_queue_attr_t attr);
#ifdef __cplusplus
}
#endif
