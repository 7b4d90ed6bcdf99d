// Asks the driver for what NVIDIA's CUDA runtime asks for when it is linked into a program: private tables,
// one of which proves that the driver is NVIDIA's.
//
// Another driver has none, and says what can be done about it.
#include "program.h"

int main(void) {
    static const CUuuid tables[] = {
        {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9}},
        {{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1, 0xf2}},
    };
    CHECK(cuInit(0));
    for (int i = 0; i < 2; i++) {
        const void *table = &table;
        EXPECT(cuGetExportTable(&table, &tables[i]) == CUDA_ERROR_NOT_FOUND && table == NULL);
    }
    puts("no such tables");
    return 0;
}
