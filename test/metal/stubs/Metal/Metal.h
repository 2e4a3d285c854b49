// Stands for <Metal/Metal.h> on Linux: what src/device/metal_* and the plug-in use. Each group
// names the header of Metal's that it mirrors; properties and arguments are as there, nullability
// and availability are left out.
#pragma once

#import <Foundation/Foundation.h>

@protocol MTLBlitCommandEncoder, MTLBuffer, MTLCommandBuffer, MTLCommandQueue, MTLDevice, MTLEvent,
    MTLSharedEvent;

// MTLResource.h: MTLStorageMode, MTLResourceOptions
typedef enum MTLStorageMode : NSUInteger {
  MTLStorageModeShared = 0,
  MTLStorageModeManaged = 1,
  MTLStorageModePrivate = 2,
  MTLStorageModeMemoryless = 3,
} MTLStorageMode;
typedef enum MTLResourceOptions : NSUInteger {
  MTLResourceStorageModeShared = MTLStorageModeShared << 4,
  MTLResourceStorageModePrivate = MTLStorageModePrivate << 4,
} MTLResourceOptions;

// MTLResource.h: @protocol MTLResource
@protocol MTLResource <NSObject>
@property(readonly) id<MTLDevice> device;
@property(readonly) MTLStorageMode storageMode;
@end

// MTLBuffer.h: @protocol MTLBuffer
@protocol MTLBuffer <MTLResource>
@property(readonly) NSUInteger length;
- (void*)contents;
@end

// MTLEvent.h: @protocol MTLEvent
@protocol MTLEvent <NSObject>
@property(readonly) id<MTLDevice> device;
@end

// MTLEvent.h: @interface MTLSharedEventListener
@interface MTLSharedEventListener : NSObject
- (instancetype)init;
- (instancetype)initWithDispatchQueue:(dispatch_queue_t)dispatchQueue;
@property(nonatomic, readonly) dispatch_queue_t dispatchQueue;
@end

// MTLEvent.h: MTLSharedEventNotificationBlock, @protocol MTLSharedEvent
typedef void (^MTLSharedEventNotificationBlock)(id<MTLSharedEvent>, uint64_t value);
@protocol MTLSharedEvent <MTLEvent>
- (void)notifyListener:(MTLSharedEventListener*)listener
               atValue:(uint64_t)value
                 block:(MTLSharedEventNotificationBlock)block;
@property(readwrite) uint64_t signaledValue;
@end

// MTLCommandEncoder.h: @protocol MTLCommandEncoder; its -endEncoding
@protocol MTLCommandEncoder <NSObject>
- (void)endEncoding;
@end

// MTLComputeCommandEncoder.h: named by torch's MPSStream.h
@protocol MTLComputeCommandEncoder <MTLCommandEncoder>
@end

// MTLBlitCommandEncoder.h: @protocol MTLBlitCommandEncoder; its copy between buffers
@protocol MTLBlitCommandEncoder <MTLCommandEncoder>
- (void)copyFromBuffer:(id<MTLBuffer>)sourceBuffer
          sourceOffset:(NSUInteger)sourceOffset
              toBuffer:(id<MTLBuffer>)destinationBuffer
     destinationOffset:(NSUInteger)destinationOffset
                  size:(NSUInteger)size;
@end

// MTLCommandBuffer.h: MTLCommandBufferHandler, @protocol MTLCommandBuffer
typedef void (^MTLCommandBufferHandler)(id<MTLCommandBuffer>);
@protocol MTLCommandBuffer <NSObject>
- (void)commit;
- (void)addCompletedHandler:(MTLCommandBufferHandler)block;
- (id<MTLBlitCommandEncoder>)blitCommandEncoder;
- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value;
- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value;
@end

// MTLCommandQueue.h: @protocol MTLCommandQueue; its -commandBuffer
@protocol MTLCommandQueue <NSObject>
- (id<MTLCommandBuffer>)commandBuffer;
@end

// MTLDevice.h: @protocol MTLDevice
@protocol MTLDevice <NSObject>
- (id<MTLCommandQueue>)newCommandQueue;
- (id<MTLSharedEvent>)newSharedEvent;
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options;
@end
