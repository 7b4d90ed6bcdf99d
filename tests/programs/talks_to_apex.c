// Talks to the scheduler from C while it launches.
#include "../../include/apex.h"

#include "program.h"

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
    apex_log(APEX_LOG_DEBUG);
    EXPECT(apex_profile(1) == enabled);
    puts("talked");
    return 0;
}
