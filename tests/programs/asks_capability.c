// Asks for the device's compute capability in every way, and for a limit that must stay the device's own.
#include "program.h"

int main(void) {
    enum { SHARED_OPTIN = 97, MAJOR = 75, MINOR = 76, LEGACY_STREAM = 1 };
    int major, minor, shared;
    CHECK(cuInit(0));
    CHECK(cuDeviceGetAttribute(&major, MAJOR, 0));
    CHECK(cuDeviceGetAttribute(&minor, MINOR, 0));
    CHECK(cuDeviceGetAttribute(&shared, SHARED_OPTIN, 0));
    printf("attributes: %d.%d, %d bytes\n", major, minor, shared);
    CHECK(cuDeviceComputeCapability(&major, &minor, 0));
    printf("both: %d.%d\n", major, minor);
    CUresult (*ask)(int *, int, CUdevice) = NULL;
    CHECK(cuGetProcAddress("cuDeviceGetAttribute", (void **)&ask, 11030, LEGACY_STREAM));
    CHECK(ask(&major, MAJOR, 0));
    printf("found: %d\n", major);
    return 0;
}
