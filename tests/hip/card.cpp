// What `fake.cpp` has of one card: FAKE_ARCH is the architecture's name with features, FAKE_OLD leaves HIP 6's layout of
// properties out.
extern "C" __attribute__((visibility("hidden"))) const char fake_arch[] = FAKE_ARCH;
extern "C" int fake_properties(void* to, int device, unsigned long bytes, unsigned long at);

#ifndef FAKE_OLD
extern "C" int hipGetDevicePropertiesR0600(void* to, int device) { return fake_properties(to, device, 1472, 1160); }
#endif
