// Talks to the scheduler from C while it launches.
#include "../../include/apex.h"

#include "program.h"

#include <stddef.h>

// A program built with another version of the header has fewer fields, or had a structure without its size.
static void check_sizes(const apex_metrics *known, int enabled) {
    apex_metrics fewer;
    memset(&fewer, 0x55, sizeof fewer);
    fewer.size = offsetof(apex_metrics, holds);
    apex_metrics untouched = fewer;
    EXPECT(apex_ask_metrics_(&fewer) == enabled);
    EXPECT(memcmp(&fewer.holds, &untouched.holds, sizeof fewer - offsetof(apex_metrics, holds)) == 0);
    EXPECT(!enabled || fewer.launches == known->launches);
    uint64_t without_size[9] = {0};
    int (*before)(void *);
    void *address = dlsym(RTLD_DEFAULT, "apex_get_metrics");
    memcpy(&before, &address, sizeof before);
    EXPECT((address != NULL) == enabled);
    EXPECT(!enabled || (before(without_size) == 1 && without_size[3] == known->launches));
}

int main(void) {
    int enabled = apex_schedule(1);
    apex_config config = {5.0f, 0, 0};
    EXPECT(apex_set_config(&config) == 0);
    EXPECT(strlen(apex_why(0)) == 0);
    Gpu gpu = start();
    for (int i = 0; i < 500; i++)
        launch_nothing(&gpu, 8, NULL);
    CHECK(cuCtxSynchronize());
    apex_metrics metrics;
    EXPECT(apex_read_metrics(&metrics) == enabled);
    EXPECT(enabled == apex_is_active());
    EXPECT(enabled ? metrics.launches >= 490 && metrics.bursts >= 1 : isnan(metrics.avg_queue_wait_ms));
    check_sizes(&metrics, enabled);
    apex_log(APEX_LOG_DEBUG);
    EXPECT(apex_profile(1) == enabled);
    puts("talked");
    return 0;
}
