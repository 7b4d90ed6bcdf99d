//! Gives work to threads in the order that streams, events and graphs demand.
//!
//! A [`Task`] waits until all tasks it follows are done; then it is ready, and a
//! worker takes it, the highest priority first. Of a kernel with several blocks any
//! number of threads take blocks until none is left. A thread that waits for a task
//! does not sleep while something that the task follows can be done: it does it
//! itself, so that a launch and its wait need no other thread. It never takes
//! anything else, because a kernel of another stream may wait for what the thread
//! will do next. Host functions are left to the workers: they may take locks that
//! the waiting thread holds.
//!
//! One lock guards who follows whom; it is never held while work is done. Tasks that
//! only mark a point are done under it, as soon as they are ready. A task that waits
//! for a word in memory holds no thread: of those that are idle one looks at the words.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use apex_cuda::types::*;
use apex_engine::{Grid, Launch};

use crate::border::Answer;
use crate::machine::clock;
use crate::object::lock;
use crate::run::domain::{Domain, Job, Links, PRIORITY_RANKS, Queue, Task};
use crate::settings::settings;

/// A kernel on its way.
struct Running {
    task: Arc<Task>,
    grid: Grid,
    name: String,
    /// Whether there may be blocks to take, and room for one more thread.
    joinable: AtomicBool,
    /// Threads that take blocks: as many as there are workers, and no more, because a thread too many on
    /// the same processors only delays the others.
    takers: AtomicUsize,
}

impl Running {
    /// One more thread takes blocks.
    fn join(self: &Arc<Running>) -> Picked {
        let takers = self.takers.fetch_add(1, Ordering::Relaxed) + 1;
        if takers >= worker_count() {
            self.close();
        }
        Picked::Join(Arc::clone(self))
    }

    /// No further thread is wanted.
    fn close(&self) {
        if self.joinable.swap(false, Ordering::Relaxed) {
            OFFERED.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What a thread has taken to do.
enum Picked {
    Start(Arc<Task>),
    Join(Arc<Running>),
}

struct State {
    /// Ready tasks by priority, the highest first.
    ready: [VecDeque<Arc<Task>>; PRIORITY_RANKS],
    /// Tasks that wait for a word in memory.
    polled: Vec<Arc<Task>>,
    running: Vec<Arc<Running>>,
    workers: usize,
    asleep: usize,
    waiting: usize,
    /// A worker looks at the words again after a while. One is enough: where each looked, work that waits for long would
    /// take all processors.
    polling: bool,
    /// Rises whenever a thread takes something.
    taken: u64,
}

const SPIN: Duration = Duration::from_micros(30);
const LOOK_AGAIN: Duration = Duration::from_micros(50);
/// Ready work that nobody takes for so long gets a worker more: the others may run
/// kernels that wait for it.
const STARVED: Duration = Duration::from_millis(5);
const WORKERS_AT_MOST: usize = 512;
/// How many such workers there may be beside kernels that look at memory others change. Beside kernels that are
/// merely long one is enough: more would only take turns on the same processors.
const SPARE: usize = 32;
/// A grid with fewer threads is not worth waking a worker for.
const THREADS_PER_HELPER: u64 = 2048;
const STOP_PATIENCE: Duration = Duration::from_millis(500);

static STATE: Mutex<State> = Mutex::new(State {
    ready: [const { VecDeque::new() }; PRIORITY_RANKS],
    polled: Vec::new(),
    running: Vec::new(),
    workers: 0,
    asleep: 0,
    waiting: 0,
    polling: false,
    taken: 0,
});
static WORK: Condvar = Condvar::new();
static PROGRESS: Condvar = Condvar::new();
/// Ready tasks and kernels that can be joined, for threads that spin.
static OFFERED: AtomicUsize = AtomicUsize::new(0);
static SPINNING: AtomicUsize = AtomicUsize::new(0);
static STOPPED: AtomicBool = AtomicBool::new(false);

fn state() -> MutexGuard<'static, State> {
    lock(&STATE)
}

/// Puts a task at the end of a queue, after all that the queue's kind and `after` demand.
pub(crate) fn enqueue(
    domain: &Arc<Domain>,
    queue: &Arc<Queue>,
    after: &[Arc<Task>],
    job: Job,
) -> Arc<Task> {
    let mut state = state();
    let task = make(domain, queue, job);
    let mut links = Links::default();
    domain.for_each_before(queue, |before| follow(&task, before, &mut links));
    after.iter().for_each(|before| follow(&task, before, &mut links));
    *lock(&queue.tail) = Some(Arc::clone(&task));
    enter(&mut state, &task, links);
    task
}

/// A task that follows others and stands in no queue; a graph's node.
pub(crate) fn enqueue_aside(
    domain: &Arc<Domain>,
    queue: &Arc<Queue>,
    after: &[Arc<Task>],
    job: Job,
) -> Arc<Task> {
    let mut state = state();
    let task = make(domain, queue, job);
    let mut links = Links::default();
    after.iter().for_each(|before| follow(&task, before, &mut links));
    enter(&mut state, &task, links);
    task
}

/// Whether nothing that new work in the queue would follow is under way.
pub(crate) fn is_idle(domain: &Domain, queue: &Queue) -> bool {
    if domain.pending.load(Ordering::Acquire) == 0 {
        return true;
    }
    let _state = state();
    let mut idle = true;
    domain.for_each_before(queue, |before| idle &= before.is_done());
    idle
}

/// Waits until a task is done, and does what it waits for.
pub(crate) fn wait(task: &Arc<Task>, spins: bool) {
    let mut began = Instant::now();
    let mut deep = false;
    while !task.is_done() {
        let mut state = state();
        if task.is_done() {
            return;
        }
        let picked = state.pick_for(task, deep);
        if let Some(picked) = picked {
            drop(state);
            execute(picked, false);
            (began, deep) = (Instant::now(), false);
            continue;
        }
        let polled = state.poll();
        if polled > 0 {
            continue;
        }
        if !deep {
            deep = true;
            continue;
        }
        if spins && processors() > 1 && began.elapsed() < SPIN {
            let offered = OFFERED.load(Ordering::Relaxed);
            drop(state);
            for _ in 0..64 {
                if task.is_done() || OFFERED.load(Ordering::Relaxed) != offered {
                    break;
                }
                core::hint::spin_loop();
            }
            continue;
        }
        let patience = if state.lacks_poller() { LOOK_AGAIN } else { STARVED };
        let taken = state.taken;
        state.waiting += 1;
        let (mut state, _) =
            PROGRESS.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        let starved = patience == STARVED && began.elapsed() >= STARVED;
        // Blocks of a long kernel starve nobody: only a task that has not begun can be what others wait for.
        let is_ready = state.ready.iter().any(|tasks| !tasks.is_empty());
        if starved && state.taken == taken && is_ready && state.workers < state.most_workers() {
            state.add_worker();
        }
    }
}

impl Domain {
    /// Waits for all work of a queue that was given before.
    pub(crate) fn drain_queue(&self, queue: &Queue, spins: bool) -> Answer {
        if self.pending.load(Ordering::Acquire) > 0 {
            self.ends(queue).iter().for_each(|task| wait(task, spins));
        }
        crate::print::flush();
        self.check()
    }

    /// Waits for all work of the context that was given before.
    pub(crate) fn drain(&self, spins: bool) -> Answer {
        if self.pending.load(Ordering::Acquire) > 0 {
            self.tails().iter().for_each(|task| wait(task, spins));
        }
        crate::print::flush();
        self.check()
    }
}

/// Ends all work: kernels are asked to stop, and nothing is started any more.
pub(crate) fn stop() {
    STOPPED.store(true, Ordering::Release);
    let began = Instant::now();
    while began.elapsed() < STOP_PATIENCE {
        let state = state();
        if state.running.is_empty() {
            return;
        }
        state.running.iter().for_each(|running| running.grid.cancel());
        drop(state);
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn make(domain: &Arc<Domain>, queue: &Queue, job: Job) -> Arc<Task> {
    domain.pending.fetch_add(1, Ordering::AcqRel);
    Arc::new(Task {
        domain: Arc::clone(domain),
        queue: queue.id,
        rank: queue.rank,
        for_worker: matches!(job, Job::Host(_)),
        done: AtomicBool::new(false),
        job: Mutex::new(Some(job)),
        links: Mutex::default(),
        end: AtomicU64::new(0),
    })
}

fn follow(task: &Arc<Task>, before: &Arc<Task>, links: &mut Links) {
    if before.is_done() {
        links.start = links.start.max(before.end());
    } else {
        lock(&before.links).after.push(Arc::clone(task));
        links.before.push(Arc::clone(before));
        links.waits += 1;
    }
}

fn enter(state: &mut State, task: &Arc<Task>, links: Links) {
    let is_ready = links.waits == 0;
    *lock(&task.links) = links;
    if is_ready {
        state.make_ready(Arc::clone(task));
    }
}

impl State {
    /// Offers a task to the threads, or does it where it takes no time.
    fn make_ready(&mut self, task: Arc<Task>) {
        let mut instant = vec![task];
        while let Some(task) = instant.pop() {
            lock(&task.links).before.clear();
            let mut job = lock(&task.job);
            match job.as_ref() {
                None | Some(Job::Nothing | Job::Mark(_)) => {
                    let job = job.take();
                    self.finish(&task, job, 0, &mut instant);
                }
                Some(Job::Until(_)) => {
                    drop(job);
                    self.polled.push(task);
                    self.wake();
                }
                Some(_) => {
                    drop(job);
                    OFFERED.fetch_add(1, Ordering::Relaxed);
                    let rank = task.rank;
                    self.ready[rank].push_back(task);
                    self.wake();
                }
            }
        }
    }

    /// Marks a task done; those that waited for it alone are ready now.
    fn finish(
        &mut self,
        task: &Arc<Task>,
        job: Option<Job>,
        cost: u64,
        ready: &mut Vec<Arc<Task>>,
    ) {
        if task.is_done() {
            return;
        }
        let mut links = lock(&task.links);
        let end = links.start + cost;
        let after = core::mem::take(&mut links.after);
        links.before.clear();
        drop(links);
        task.end.store(end, Ordering::Relaxed);
        if let Some(Job::Mark(mark)) = job {
            mark.reach(clock::now(end));
        }
        task.done.store(true, Ordering::Release);
        task.domain.pending.fetch_sub(1, Ordering::AcqRel);
        for next in after {
            let mut links = lock(&next.links);
            links.start = links.start.max(end);
            links.waits -= 1;
            if links.waits == 0 {
                drop(links);
                ready.push(next);
            }
        }
        if self.waiting > 0 {
            PROGRESS.notify_all();
        }
    }

    /// Finishes a task and makes ready what followed it.
    fn complete(&mut self, task: &Arc<Task>, cost: u64) {
        let mut ready = Vec::new();
        self.finish(task, None, cost, &mut ready);
        ready.into_iter().for_each(|task| self.make_ready(task));
    }

    fn wake(&mut self) {
        if self.workers == 0 {
            (0..worker_count()).for_each(|_| self.add_worker());
        } else if self.asleep > 0 && SPINNING.load(Ordering::Relaxed) == 0 {
            WORK.notify_one();
        }
    }

    fn add_worker(&mut self) {
        if self.workers >= WORKERS_AT_MOST {
            return;
        }
        let name = format!("apex-gpu-{}", self.workers);
        // A thread begins with the signals of the one that makes it: none comes to it even before its first instruction.
        let before = block_signals();
        let made = std::thread::Builder::new().name(name).spawn(worker).is_ok();
        unblock_signals(&before);
        if made {
            self.workers += 1;
        }
    }

    /// How many workers there may be now.
    fn most_workers(&self) -> usize {
        let waits = self.running.iter().any(|running| running.grid.polls());
        worker_count() + if waits { SPARE } else { 1 }
    }

    /// The next thing for a worker.
    fn pick(&mut self) -> Option<Picked> {
        let first = self.ready.iter().position(|tasks| !tasks.is_empty());
        let joinable = self
            .running
            .iter()
            .filter(|running| running.joinable.load(Ordering::Relaxed))
            .min_by_key(|running| running.task.rank);
        if let Some(running) = joinable
            && first.is_none_or(|rank| running.task.rank < rank)
        {
            let picked = running.join();
            self.taken += 1;
            return Some(picked);
        }
        let task = self.ready[first?].pop_front()?;
        OFFERED.fetch_sub(1, Ordering::Relaxed);
        self.taken += 1;
        Some(Picked::Start(task))
    }

    /// Something that a task waits for: of its own queue, or, looking deep, of any.
    fn pick_for(&mut self, target: &Arc<Task>, deep: bool) -> Option<Picked> {
        let mut wanted = |task: &Task| task.queue == target.queue && !task.for_worker;
        if !deep {
            return self.pick_where(&mut wanted);
        }
        let mut seen = std::collections::HashSet::new();
        let mut next = vec![Arc::clone(target)];
        while let Some(task) = next.pop() {
            if seen.insert(Arc::as_ptr(&task)) {
                next.extend(lock(&task.links).before.iter().cloned());
            }
        }
        self.pick_where(&mut |task| seen.contains(&core::ptr::from_ref(task)) && !task.for_worker)
    }

    fn pick_where(&mut self, wanted: &mut dyn FnMut(&Task) -> bool) -> Option<Picked> {
        for tasks in &mut self.ready {
            if let Some(at) = tasks.iter().position(|task| wanted(task)) {
                OFFERED.fetch_sub(1, Ordering::Relaxed);
                self.taken += 1;
                return tasks.remove(at).map(Picked::Start);
            }
        }
        let mut running = self.running.iter();
        let joinable = running
            .find(|running| running.joinable.load(Ordering::Relaxed) && wanted(&running.task))?;
        let picked = joinable.join();
        self.taken += 1;
        Some(picked)
    }

    /// Whether words are waited for and nobody looks at them.
    fn lacks_poller(&self) -> bool {
        !self.polled.is_empty() && !self.polling
    }

    /// Looks at the words that tasks wait for; how many waits are over.
    fn poll(&mut self) -> usize {
        if self.polled.is_empty() {
            return 0;
        }
        let over: Vec<Arc<Task>> = self
            .polled
            .extract_if(.., |task| {
                let failed = task.domain.failure() != CUDA_SUCCESS || is_stopped();
                failed
                    || match lock(&task.job).as_mut() {
                        Some(Job::Until(is_over)) => is_over(),
                        _ => true,
                    }
            })
            .collect();
        over.iter().for_each(|task| self.complete(task, 0));
        over.len()
    }
}

fn is_stopped() -> bool {
    STOPPED.load(Ordering::Acquire)
}

pub(crate) fn processors() -> usize {
    static COUNT: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// How many threads execute kernels.
pub(crate) fn worker_count() -> usize {
    match settings().softgpu_workers {
        0 => processors(),
        count => (count as usize).min(WORKERS_AT_MOST),
    }
}

fn worker() {
    let mut state = state();
    // It has done something since it slept: then there is likely more.
    let mut worked = true;
    loop {
        if let Some(picked) = state.pick() {
            // What was offered while one thread was spinning woke nobody; and who looked at words does so no longer.
            let lacks_poller = state.lacks_poller();
            if state.asleep > 0 && (lacks_poller || OFFERED.load(Ordering::Relaxed) > 0) {
                WORK.notify_one();
            } else if state.waiting > 0 && lacks_poller {
                PROGRESS.notify_all();
            }
            drop(state);
            execute(picked, true);
            state = self::state();
            worked = true;
            continue;
        }
        if state.poll() > 0 {
            continue;
        }
        if std::mem::take(&mut worked) {
            drop(state);
            let found = spin();
            state = self::state();
            if found {
                continue;
            }
        }
        if OFFERED.load(Ordering::Relaxed) > 0 {
            continue;
        }
        state.asleep += 1;
        state = if state.lacks_poller() {
            state.polling = true;
            let slept = WORK.wait_timeout(state, LOOK_AGAIN);
            let mut state = slept.unwrap_or_else(PoisonError::into_inner).0;
            state.polling = false;
            state
        } else {
            WORK.wait(state).unwrap_or_else(PoisonError::into_inner)
        };
        state.asleep -= 1;
    }
}

/// Spins for a while; whether there is something to do. One thread is enough to
/// spare the next launch a call of the system.
fn spin() -> bool {
    if processors() == 1 || SPINNING.swap(1, Ordering::AcqRel) != 0 {
        return false;
    }
    let began = Instant::now();
    let mut found = false;
    while !found && began.elapsed() < SPIN {
        for _ in 0..32 {
            core::hint::spin_loop();
        }
        found = OFFERED.load(Ordering::Relaxed) > 0;
    }
    SPINNING.store(0, Ordering::Release);
    found
}

/// Signals are the program's: its own threads handle them. Those that a fault raises
/// come to the thread that faults. Returns the calling thread's signals before.
fn block_signals() -> libc::sigset_t {
    // SAFETY: both sets are filled before they are used, and concern this thread alone.
    unsafe {
        let mut set = core::mem::zeroed::<libc::sigset_t>();
        let mut before = core::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&raw mut set);
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP] {
            libc::sigdelset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
        before
    }
}

/// Gives the calling thread the signals that it had.
fn unblock_signals(before: &libc::sigset_t) {
    // SAFETY: a whole set, which concerns this thread alone.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, before, core::ptr::null_mut());
    }
}

fn execute(picked: Picked, is_worker: bool) {
    debug_assert!(is_worker || !matches!(&picked, Picked::Start(task) if task.for_worker));
    match picked {
        Picked::Start(task) => start(&task),
        Picked::Join(running) => work(&running),
    }
}

pub(crate) fn start(task: &Arc<Task>) {
    let job = lock(&task.job).take();
    let failure = task.domain.failure();
    let goes = failure == CUDA_SUCCESS && !is_stopped();
    let mut cost = 0;
    match job {
        Some(Job::Kernel(launch)) if goes => return start_kernel(task, launch),
        Some(Job::Once { run, bytes }) if goes => {
            cost = clock::copy_cost(bytes);
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => task.domain.fail(error),
                Err(_) => task.domain.fail(CUDA_ERROR_UNKNOWN),
            }
        }
        Some(Job::Host(call)) if !is_stopped() => call(failure),
        Some(Job::Always(clean_up)) => clean_up(),
        _ => {}
    }
    state().complete(task, cost);
}

fn start_kernel(task: &Arc<Task>, launch: Launch) {
    let name = launch.kernel.name.clone();
    let product = |sides: [u32; 3]| {
        sides.iter().fold(1_u64, |product, &side| product.saturating_mul(side.into()))
    };
    let blocks = product(launch.grid);
    let threads = blocks.saturating_mul(product(launch.block));
    let made = catch_unwind(AssertUnwindSafe(|| Grid::new(launch, task.domain.engine())));
    let grid = match made {
        Ok(Ok(grid)) => grid,
        Ok(Err(fault)) => {
            task.domain.fault(&name, &fault);
            state().complete(task, 0);
            return;
        }
        Err(_) => {
            task.domain.fail(CUDA_ERROR_LAUNCH_FAILED);
            state().complete(task, 0);
            return;
        }
    };
    let is_shared = blocks > 1 && worker_count() > 1;
    let (joinable, takers) = (AtomicBool::new(is_shared), AtomicUsize::new(1));
    let running = Arc::new(Running { task: Arc::clone(task), grid, name, joinable, takers });
    let mut state = state();
    state.running.push(Arc::clone(&running));
    if is_shared {
        OFFERED.fetch_add(1, Ordering::Relaxed);
        let helpers = (blocks - 1).min(threads / THREADS_PER_HELPER).min(state.asleep as u64);
        (0..helpers).for_each(|_| WORK.notify_one());
        if helpers > 0 && state.waiting > 0 {
            PROGRESS.notify_all();
        }
    }
    drop(state);
    work(&running);
}

/// Takes blocks of a kernel until none is left.
fn work(running: &Arc<Running>) {
    let worked = catch_unwind(AssertUnwindSafe(|| running.grid.work()));
    let is_last = worked.unwrap_or_else(|_| {
        // Its blocks will never all be done: the kernel ends here.
        running.task.domain.fail(CUDA_ERROR_LAUNCH_FAILED);
        running.grid.cancel();
        true
    });
    if is_last && let Some(fault) = running.grid.fault() {
        running.task.domain.fault(&running.name, &fault);
    }
    let mut state = state();
    running.close();
    if is_last {
        state.running.retain(|other| !Arc::ptr_eq(other, running));
        let cost = clock::kernel_cost(&running.grid, running.task.domain.device);
        state.complete(&running.task, cost);
    }
}
