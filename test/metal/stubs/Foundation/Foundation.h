// Stands for <Foundation/Foundation.h> on Linux: what Metal's and torch's headers name, no more.
// Each line names the declaration that it mirrors.
#pragma once

#include <dispatch/dispatch.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// objc/objc.h: nil, BOOL, YES, NO
#ifndef nil
#define nil nullptr
#endif
typedef signed char BOOL;
#define YES (static_cast<BOOL>(1))
#define NO (static_cast<BOOL>(0))

// objc/NSObjCRuntime.h: NSInteger, NSUInteger
typedef long NSInteger;
typedef unsigned long NSUInteger;

// Foundation/NSString.h
@class NSString;

// objc/NSObject.h: @protocol NSObject
@protocol NSObject
- (instancetype)self;
@end

// objc/NSObject.h: @interface NSObject <NSObject>; its +alloc, -init, +new
__attribute__((objc_root_class)) @interface NSObject<NSObject> {
 @public
  Class isa;
}
+ (instancetype)alloc;
- (instancetype)init;
+ (instancetype)new;
@end

// Foundation/NSString.h: NSString; its UTF8String
@interface NSString : NSObject
@property(readonly) const char* UTF8String;
@end

// Foundation/NSError.h: NSError; its localizedDescription, code
@interface NSError : NSObject
@property(readonly, copy) NSString* localizedDescription;
@property(readonly) NSInteger code;
@end

// Foundation/NSDictionary.h: named by torch's MPSStream.h
@interface NSDictionary<__covariant KeyType, __covariant ObjectType> : NSObject
@end

#if !__has_feature(objc_arc)
// Foundation/NSAutoreleasePool.h: what @autoreleasepool becomes without ARC on this runtime
@interface NSAutoreleasePool : NSObject
- (void)drain;
@end
#endif
