// Names of errors, and what they mean in words of our own.

#include "kernels/emulator/runtime_api.h"

namespace {

struct Description {
  cudaError_t code;
  const char* name;
  const char* text;
};

constexpr Description kDescriptions[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "an argument is out of its range"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "not enough memory on the device"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "the runtime could not start"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "a launch asks for more than a device has"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver", "the driver is older than the runtime"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "there is no device"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "there is no device of that number"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice", "the program has no code for this chip"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle",
     "a stream, event or graph that does not exist or belongs to another device"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "the object is in no state for this call"},
    {cudaErrorNotReady, "cudaErrorNotReady", "not done yet"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "memory outside of an allocation was touched"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "a kernel failed while it ran"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "the call is not allowed from here"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "the device cannot do that"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported", "a call that a capture forbids"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated", "the capture failed at an earlier call"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge", "two captures would become one"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "the capture began on another stream"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "captured work that the first stream does not wait for"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation", "captured work would wait for other work"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "the default stream would wait for a stream that captures"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent", "the event was last recorded in a capture"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread", "another thread began the capture"},
};

const Description* find(cudaError_t error) {
  for (const Description& description : kDescriptions) {
    if (description.code == error) return &description;
  }
  return nullptr;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  const Description* found = find(error);
  return found != nullptr ? found->name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  const Description* found = find(error);
  return found != nullptr ? found->text : "unrecognized error code";
}
