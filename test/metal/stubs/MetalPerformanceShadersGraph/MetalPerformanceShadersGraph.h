// Stands for <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h> on Linux.
#pragma once

#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

// MPSGraph.h: MPSGraph, MPSGraphExecutionDescriptor, MPSGraphCompilationDescriptor; named by
// torch's MPSStream.h
@interface MPSGraph : NSObject
@end
@interface MPSGraphExecutionDescriptor : NSObject
@end
@interface MPSGraphCompilationDescriptor : NSObject
@end
