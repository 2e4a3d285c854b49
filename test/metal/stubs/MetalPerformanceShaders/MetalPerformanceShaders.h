// Stands for <MetalPerformanceShaders/MetalPerformanceShaders.h> on Linux.
#pragma once

#import <Metal/Metal.h>

// MPSCommandBuffer.h (MPSCore): @interface MPSCommandBuffer : NSObject <MTLCommandBuffer>
@interface MPSCommandBuffer : NSObject <MTLCommandBuffer>
- (void)commitAndContinue;
@end
