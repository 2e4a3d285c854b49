#import "metal/fake_metal.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "metal/fake_runtime.h"

using mccl::fake_metal::Command;
using mccl::fake_metal::CommandSink;
using mccl::fake_metal::Event;
using mccl::fake_metal::Gpu;
using mccl::fake_metal::Violations;

extern "C" void* _Block_copy(const void* block);
extern "C" void _Block_release(const void* block);

namespace {

// A block held by C++: the last copy releases it.
template <typename BlockType>
std::shared_ptr<const void> hold(BlockType block) {
  return {_Block_copy(static_cast<const void*>(block)), _Block_release};
}

template <typename BlockType>
BlockType block_of(const std::shared_ptr<const void>& held) {
  return (BlockType)held.get();  // no C++ cast leads from a pointer to a block
}

}  // namespace

@interface FakeEvent : NSObject <MTLSharedEvent> {
 @public
  Gpu* gpu;
  Event* event;
}
@end

@implementation FakeEvent
- (id<MTLDevice>)device {
  return nil;
}
- (uint64_t)signaledValue {
  return event->value();
}
- (void)setSignaledValue:(uint64_t)value {
  event->raise(value);
}
- (void)notifyListener:(MTLSharedEventListener*)listener
               atValue:(uint64_t)value
                 block:(MTLSharedEventNotificationBlock)block {
  MCCL_CHECK(listener != nil);
  const std::shared_ptr<const void> held = hold(block);
  gpu->on_notify();
  event->notify(
      value,
      [self, held](uint64_t reached) {
        block_of<MTLSharedEventNotificationBlock>(held)(self, reached);
      },
      gpu->if_reached);
}
@end

@implementation MTLSharedEventListener
- (instancetype)initWithDispatchQueue:(dispatch_queue_t)__attribute__((unused))queue {
  return self;
}
- (instancetype)init {
  return self;
}
- (dispatch_queue_t)dispatchQueue {
  return nil;
}
@end

@interface FakeBuffer : NSObject <MTLBuffer> {
 @public
  std::byte* bytes;
  NSUInteger byte_count;
  MTLStorageMode mode;
}
@end

@implementation FakeBuffer
- (id<MTLDevice>)device {
  return nil;
}
- (MTLStorageMode)storageMode {
  return mode;
}
- (NSUInteger)length {
  return byte_count;
}
- (void*)contents {
  return mode == MTLStorageModeShared ? bytes : nullptr;
}
@end

@interface FakeCommandBuffer : MPSCommandBuffer {
 @public
  CommandSink* sink;
  Violations* violations;
  bool is_encoder_open;
  bool is_committed;
  std::vector<std::shared_ptr<const void>>* handlers;
}
- (void)encode:(Command)command named:(const char*)name;
@end

@interface FakeBlitEncoder : NSObject <MTLBlitCommandEncoder> {
 @public
  FakeCommandBuffer* buffer;
}
@end

@implementation FakeBlitEncoder
- (void)copyFromBuffer:(id<MTLBuffer>)source
          sourceOffset:(NSUInteger)source_offset
              toBuffer:(id<MTLBuffer>)destination
     destinationOffset:(NSUInteger)destination_offset
                  size:(NSUInteger)size {
  auto* from = static_cast<FakeBuffer*>(source);
  auto* to = static_cast<FakeBuffer*>(destination);
  if (source_offset + size > from->byte_count || destination_offset + size > to->byte_count)
    return buffer->violations->report("a copy leaves its buffer");
  Command copy;
  copy.run = [=] {
    std::memcpy(to->bytes + destination_offset, from->bytes + source_offset, size);
  };
  buffer->sink->encode(std::move(copy));
}
- (void)endEncoding {
  buffer->is_encoder_open = false;
}
@end

// Only torch's header names it; FakeCommandBuffer is what is made.
@implementation MPSCommandBuffer
- (void)commit {
}
- (void)commitAndContinue {
}
- (void)addCompletedHandler:(MTLCommandBufferHandler)__attribute__((unused))block {
}
- (id<MTLBlitCommandEncoder>)blitCommandEncoder {
  return nil;
}
- (void)encodeWaitForEvent:(id<MTLEvent>)__attribute__((unused))event
                     value:(uint64_t)__attribute__((unused))value {
}
- (void)encodeSignalEvent:(id<MTLEvent>)__attribute__((unused))event
                    value:(uint64_t)__attribute__((unused))value {
}
@end

@implementation FakeCommandBuffer
- (void)encode:(Command)command named:(const char*)name {
  if (is_encoder_open)
    violations->report(std::string(name) + " was encoded while an encoder was open");
  if (is_committed) violations->report(std::string(name) + " was encoded after the commit");
  sink->encode(std::move(command));
}
- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value {
  Event* core = static_cast<FakeEvent*>(event)->event;
  Command signal;
  signal.run = [core, value] { core->raise(value); };
  [self encode:std::move(signal) named:"a signal"];
}
- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value {
  Command wait;
  wait.awaited = static_cast<FakeEvent*>(event)->event;
  wait.value = value;
  [self encode:std::move(wait) named:"a wait"];
}
- (id<MTLBlitCommandEncoder>)blitCommandEncoder {
  [self encode:{} named:"an encoder"];
  is_encoder_open = true;
  auto* encoder = [FakeBlitEncoder new];
  encoder->buffer = self;
  return encoder;
}
- (void)addCompletedHandler:(MTLCommandBufferHandler)block {
  handlers->push_back(hold(block));
}
- (void)commitAndContinue {
  if (is_encoder_open) violations->report("a command buffer was committed with an open encoder");
  if (is_committed) violations->report("a command buffer was committed twice");
  if (!handlers->empty()) {
    Command completion;
    completion.run = [self, called = std::exchange(*handlers, {})] {
      for (const auto& handler : called) block_of<MTLCommandBufferHandler>(handler)(self);
    };
    sink->encode(std::move(completion));
  }
  sink->commit();
}
- (void)commit {
  [self commitAndContinue];
  is_committed = true;
}
@end

@interface FakeCommandQueue : NSObject <MTLCommandQueue> {
 @public
  Gpu* gpu;
  size_t queue_index;
}
@end

@implementation FakeCommandQueue
- (id<MTLCommandBuffer>)commandBuffer {
  return mccl::fake_metal::make_command_buffer(gpu->make_sink(queue_index), gpu->violations());
}
@end

@interface FakeDevice : NSObject <MTLDevice> {
 @public
  Gpu* gpu;
}
@end

@implementation FakeDevice
- (id<MTLCommandQueue>)newCommandQueue {
  auto* queue = [FakeCommandQueue new];
  queue->gpu = gpu;
  queue->queue_index = gpu->add_queue();
  return queue;
}
- (id<MTLSharedEvent>)newSharedEvent {
  auto* event = [FakeEvent new];
  event->gpu = gpu;
  event->event = new Event(gpu->violations());
  ++gpu->event_count;
  return event;
}
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  auto* buffer = [FakeBuffer new];
  buffer->bytes = static_cast<std::byte*>(std::calloc(1, length));
  buffer->byte_count = length;
  buffer->mode = static_cast<MTLStorageMode>(options >> 4);
  return buffer;
}
@end

namespace mccl::fake_metal {

id<MTLDevice> make_device(Gpu& gpu) {
  auto* device = [FakeDevice new];
  device->gpu = &gpu;
  return device;
}

MPSCommandBuffer* make_command_buffer(std::unique_ptr<CommandSink> sink, Violations& violations) {
  auto* buffer = [FakeCommandBuffer new];
  buffer->sink = sink.release();
  buffer->violations = &violations;
  buffer->handlers = new std::vector<std::shared_ptr<const void>>;
  return buffer;
}

std::byte* device_bytes(id<MTLBuffer> buffer) {
  return static_cast<FakeBuffer*>(buffer)->bytes;
}

Stream::Stream(SinkMaker make_sink, id<MTLDevice> device, Violations& violations, Kernels kernels)
    : make_sink_(std::move(make_sink)),
      kernels_(kernels),
      device_(device),
      violations_(violations),
      queue_(dispatch_queue_create("fake stream", DISPATCH_QUEUE_SERIAL)) {}

void Stream::check_queue(const char* what) {
  if (!is_on_queue(queue_))
    violations_.report(std::string(what) + " was called off the stream's queue");
}

MPSCommandBuffer* Stream::command_buffer() {
  check_queue("commandBuffer()");
  if (buffer_ == nil) open_buffer();
  return buffer_;
}

void Stream::end_kernel_coalescing() {
  check_queue("endKernelCoalescing()");
  if (buffer_ == nil) open_buffer();
  static_cast<FakeCommandBuffer*>(buffer_)->is_encoder_open = false;
}

void Stream::commit() {
  check_queue("synchronize()");
  end_kernel_coalescing();
  [command_buffer() commitAndContinue];
  if (kernels_ == Kernels::Elsewhere) open_buffer();
}

void Stream::open_buffer() {
  auto* buffer = static_cast<FakeCommandBuffer*>(make_command_buffer(make_sink_(), violations_));
  buffer->is_encoder_open = kernels_ == Kernels::Elsewhere;
  buffer_ = buffer;
}

void Stream::encode_kernel(std::function<void()> run) {
  const auto* body = &run;
  dispatch_sync(queue_, ^{
    auto* buffer = static_cast<FakeCommandBuffer*>(command_buffer());
    buffer->is_encoder_open = true;
    Command kernel;
    kernel.run = *body;
    buffer->sink->encode(std::move(kernel));
  });
}

void Stream::commit_kernels() {
  dispatch_sync(queue_, ^{
    commit();
  });
}

}  // namespace mccl::fake_metal
