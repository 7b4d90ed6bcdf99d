// Talks to the scheduler from C++, in the words of the guide, while it launches.
//
// With apex it takes part and is told so; without, everything does nothing.
#include "../../include/cuda_scheduler/scheduler.hpp"

extern "C" {
#include "program.h"
}

#include <cmath>

int main() {
    auto scheduler = CUDAScheduler::create();
    bool enabled = scheduler.enableAIScheduling(true);

    SchedulerConfig config;
    config.latency_critical_threshold = 10.0f;
    config.throughput_optimization = true;
    config.enable_preemption = true;
    auto result = scheduler.configure(config);

    Gpu gpu = start();
    for (int i = 0; i < 1000; i++)
        launch_nothing(&gpu, 8, nullptr);
    CHECK(cuCtxSynchronize());

    auto metrics = scheduler.getMetrics();
    scheduler.setLogLevel(LogLevel::DEBUG);
    bool recorded = scheduler.enableProfiling(true);

    EXPECT(enabled == scheduler.active() && metrics.active == enabled && recorded == enabled);
    EXPECT(result.preemption_refused == enabled && result.reason.empty() == !enabled);
    // The first launches of a process are made before it has its place on the page.
    EXPECT(enabled ? metrics.launches >= 990 : metrics.launches == 0);
    EXPECT(std::isnan(metrics.avg_queue_wait_ms) == !enabled);
    EXPECT(std::isnan(metrics.sm_utilization_percent) == !enabled);
    if (enabled)
        EXPECT(metrics.avg_queue_wait_ms >= 0 && metrics.sm_utilization_percent >= 0);
    EXPECT(scheduler.enableAIScheduling(false) == false);
    EXPECT(!scheduler.getMetrics().active);
    puts("talked");
    return 0;
}
