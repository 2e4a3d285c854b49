// What Apple's systems have below Metal, as far as the hand-off needs it on Linux, over GCC's
// libobjc: the root class, blocks, serial queues.
#import <Foundation/Foundation.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "metal/fake_runtime.h"

extern "C" id class_createInstance(Class objc_class, size_t extra_bytes);

@implementation NSObject
+ (instancetype)alloc {
  return class_createInstance(self, 0);
}
+ (instancetype)new {
  return [[self alloc] init];
}
- (instancetype)init {
  return self;
}
- (instancetype)self {
  return self;
}
@end

@implementation NSAutoreleasePool
- (void)drain {
}
@end

// -- Blocks, after clang's specification of their layout ("Block Implementation Specification").

namespace {

struct BlockDescriptor {
  unsigned long reserved;
  unsigned long bytes;
  void (*copy)(void* destination, const void* source);  // with kHasCopyDispose only
  void (*dispose)(const void* block);
};

struct Block {
  const void* isa;
  std::atomic<int> flags;
  int reserved;
  void* invoke;
  BlockDescriptor* descriptor;
};

constexpr int kNeedsFree = 1 << 24;
constexpr int kHasCopyDispose = 1 << 25;
constexpr int kIsGlobal = 1 << 28;
constexpr int kReferenceMask = 0xfffe;
constexpr int kReference = 2;

constexpr int kFieldIsBlock = 7;
constexpr int kFieldIsByReference = 8;

std::atomic<size_t> heap_blocks = 0;

}  // namespace

namespace mccl::fake_metal {
size_t heap_block_count() {
  return heap_blocks;
}
}  // namespace mccl::fake_metal

extern "C" {

void* _NSConcreteStackBlock[32];
void* _NSConcreteGlobalBlock[32];

void* _Block_copy(const void* source) {
  auto* block = const_cast<Block*>(static_cast<const Block*>(source));
  if (block == nullptr || (block->flags & kIsGlobal) != 0) return block;
  if ((block->flags & kNeedsFree) != 0) {
    block->flags += kReference;
    return block;
  }
  auto* copy = static_cast<Block*>(std::malloc(block->descriptor->bytes));
  std::memcpy(static_cast<void*>(copy), block, block->descriptor->bytes);
  copy->flags = (block->flags & ~kReferenceMask) | kNeedsFree | kReference;
  if ((copy->flags & kHasCopyDispose) != 0) copy->descriptor->copy(copy, block);
  ++heap_blocks;
  return copy;
}

void _Block_release(const void* source) {
  auto* block = const_cast<Block*>(static_cast<const Block*>(source));
  if (block == nullptr || (block->flags & kNeedsFree) == 0) return;
  const int before = block->flags.fetch_sub(kReference) & kReferenceMask;
  MCCL_CHECK_LE(kReference, before);
  if (before > kReference) return;
  if ((block->flags & kHasCopyDispose) != 0) block->descriptor->dispose(block);
  std::free(block);
  --heap_blocks;
}

void _Block_object_assign(void* destination, const void* object, int flags) {
  MCCL_CHECK((flags & kFieldIsByReference) == 0);  // __block variables are not served
  const bool is_block = (flags & kFieldIsBlock) == kFieldIsBlock;
  *static_cast<const void**>(destination) = is_block ? _Block_copy(object) : object;
}

void _Block_object_dispose(const void* object, int flags) {
  if ((flags & kFieldIsBlock) == kFieldIsBlock) _Block_release(object);
}

}  // extern "C"

// -- Serial queues.

@interface FakeDispatchQueue : NSObject <OS_dispatch_queue> {
 @public
  std::mutex* mutex;
  std::atomic<std::thread::id>* owner;
}
@end

@implementation FakeDispatchQueue
- (instancetype)init {
  mutex = new std::mutex;
  owner = new std::atomic<std::thread::id>;
  return self;
}
@end

dispatch_queue_t dispatch_queue_create(const char*, dispatch_queue_attr_t) {
  return [FakeDispatchQueue new];
}

void dispatch_sync(dispatch_queue_t queue, __attribute__((noescape)) dispatch_block_t block) {
  auto* serial = static_cast<FakeDispatchQueue*>(queue);
  // Apple's never returns from this either.
  MCCL_CHECK(serial->owner->load() != std::this_thread::get_id());
  const std::lock_guard lock(*serial->mutex);
  serial->owner->store(std::this_thread::get_id());
  block();
  serial->owner->store({});
}

namespace mccl::fake_metal {
bool is_on_queue(dispatch_queue_t queue) {
  return static_cast<FakeDispatchQueue*>(queue)->owner->load() == std::this_thread::get_id();
}
}  // namespace mccl::fake_metal

// -- Exceptions. For this runtime clang names GCC's personality of Objective-C, which knows no C++
// class; nothing here throws Objective-C's.
extern "C" int __gxx_personality_v0(int version, int actions, uint64_t exception_class,
                                    void* exception, void* context);
extern "C" int __gnu_objc_personality_v0(int version, int actions, uint64_t exception_class,
                                         void* exception, void* context) {
  return __gxx_personality_v0(version, actions, exception_class, exception, context);
}
