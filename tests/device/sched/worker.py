"""One side of a pair, or both, for `apex bench sched`: answers requests, trains, as it is told line by line.

Models are made from their configuration with seeded random weights, on the GPU; nothing is downloaded. Requests come
by chance at the rate and seed of the command, the same for every system that is measured (Poisson, or with "cv" above 1
a Gamma process whose pauses have that coefficient of variation), and a request's time counts from its scheduled
arrival, so waiting in the queue is part of it. Training never waits for a step to end before it issues the next one:
two may be under way, as in any training loop.

Lines in, lines out, JSON each (what libraries print goes to standard error):

  in   {"run": 1, "at": NS, "seconds": S, "latency": {"rate": R, "seed": K, "cv": C} or null,
        "train": true or false}
  out  {"requests": [[scheduled, start, first kernel or null, end], ...], "steps": [end, ...]}
  in   {"service": S}
  out  {"service_ns": the time of one request, the median over so many seconds}
  in   {"quit": 1}
  out  {"digests": [SHA-256 of the first output and of the last of every turn], "losses": [every loss]}

Times are nanoseconds of the machine's monotonic clock since "at". The first line out is {"ready": ...} or
{"none": reason}. It ends when its standard input does: whoever started it may have been killed.
"""

import argparse
import ctypes
import fcntl
import hashlib
import json
import os
import random
import sys
import threading
import time

# cuBLAS reads this when it starts; without it its results may differ between runs.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

LINES = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

WARM_UP_STEPS = 8
WARM_UP_SECONDS = 2.0


def answer(document):
    LINES.write(json.dumps(document) + "\n")


def bert(torch, large, batch, length):
    from transformers import BertConfig, BertModel

    sizes = dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    config = BertConfig(**(sizes if large else {}), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    with torch.device("cuda"):
        model = BertModel(config)
    return model, token_input(torch, batch, length, config.vocab_size)


def token_input(torch, batch, length, vocabulary):
    generator = torch.Generator().manual_seed(2)
    return torch.randint(1, vocabulary, (batch, length), generator=generator)


class Latency:
    """A model that answers requests; on the default stream unless it is given another."""

    def __init__(self, torch, name, stream=None):
        self.torch = torch
        self.stream = stream or torch.cuda.current_stream()
        torch.manual_seed(1)
        with torch.cuda.stream(self.stream), torch.inference_mode():
            self.forward, host_input = self.build(name)
            self.host_input = host_input.cpu().pin_memory()
            self.device_input = host_input.cuda()
            self.probe = Probe(torch, self.stream)
            for _ in range(5):
                self.forward(self.device_input)
            self.stream.synchronize()
            if name.endswith("-graph"):
                self.forward = self.captured(self.forward, stream)
            self.service_ns(WARM_UP_SECONDS)
            self.digests = [self.digest()]

    def digest(self):
        return hashlib.sha256(self.output.float().cpu().numpy().tobytes()).hexdigest()

    def service_ns(self, seconds):
        """The time of one request, the median over a while."""
        deadline, times = time.monotonic() + seconds, []
        with self.torch.cuda.stream(self.stream), self.torch.inference_mode():
            while time.monotonic() < deadline or len(times) < 10:
                started = time.monotonic_ns()
                self.answer_one()
                times.append(time.monotonic_ns() - started)
        return sorted(times)[len(times) // 2]

    def build(self, name):
        torch = self.torch
        model_name = name.removesuffix("-graph")
        if model_name == "resnet50":
            import torchvision

            with torch.device("cuda"):
                model = torchvision.models.resnet50(weights=None).eval().to(torch.bfloat16)
            model = model.to(memory_format=torch.channels_last)
            images = torch.randn(4, 3, 224, 224, generator=torch.Generator().manual_seed(2))
            return model, images.to(torch.bfloat16).to(memory_format=torch.channels_last)
        if model_name in ("llama-decode", "llama-prefill"):
            return self.llama(prefill=model_name.endswith("prefill"))
        sizes = {"bert-base": (False, 8, 384), "bert-large": (True, 4, 384), "bert-base-small": (False, 1, 128)}
        if model_name not in sizes:
            raise SystemExit(f"no model for requests is called {name}")
        model, tokens = bert(torch, *sizes[model_name])
        model = model.eval()
        if model_name == "bert-base":
            # As most who serve it do: in float on tensor cores, milliseconds for a request.
            torch.backends.cuda.matmul.allow_tf32 = True
        else:
            model = model.to(torch.bfloat16)
        # Without the model's own mask, whose making waits for the GPU, which a capture does not allow.
        return (lambda tokens: model.encoder(model.embeddings(input_ids=tokens))[0]), tokens

    def llama(self, prefill):
        from transformers import LlamaConfig, LlamaForCausalLM

        torch = self.torch
        config = LlamaConfig(
            hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
            num_key_value_heads=8, vocab_size=32000, max_position_embeddings=4096,
        )
        with torch.device("cuda"):
            model = LlamaForCausalLM(config).eval().to(torch.bfloat16)
        if prefill:
            return (lambda tokens: model(input_ids=tokens, use_cache=False).logits[:, -1]), token_input(
                torch, 1, 2048, config.vocab_size
            )
        context = token_input(torch, 1, 512, config.vocab_size).cuda()
        cache = model(input_ids=context, use_cache=True).past_key_values
        kept = [(layer.keys, layer.values) for layer in cache.layers]

        def decode(token):
            logits = model(input_ids=token, past_key_values=cache, use_cache=True).logits[:, -1]
            # One token was added, in new tensors. The old ones take their place again: nothing is cut on the GPU, so a
            # captured graph reads the same context at every replay.
            for layer, (keys, values) in zip(cache.layers, kept):
                layer.keys, layer.values = keys, values
            return logits

        return decode, token_input(torch, 1, 1, config.vocab_size)

    def captured(self, forward, stream):
        graph = self.torch.cuda.CUDAGraph()
        # Capture needs a stream that is not the default one, and what it records keeps the stream's priority and SMs.
        side = stream or self.torch.cuda.Stream()
        side.wait_stream(self.stream)
        with self.torch.cuda.stream(side):
            forward(self.device_input)
        self.stream.wait_stream(side)
        self.stream.synchronize()
        with self.torch.cuda.graph(graph, stream=side):
            output = forward(self.device_input)

        def replay(_):
            graph.replay()
            return output

        return replay

    def answer_one(self):
        """One request; the time at which its first kernel began, where that can be told."""
        self.device_input.copy_(self.host_input, non_blocking=True)
        self.probe.launch()
        self.output = self.forward(self.device_input)
        self.stream.synchronize()
        return self.probe.read()

    def run(self, at, seconds, arrivals, records):
        end = int(seconds * 1e9)
        with self.torch.cuda.stream(self.stream), self.torch.inference_mode():
            # The GPU's clock and this machine's drift apart; here nothing else runs yet.
            self.probe.set_clock()
            for scheduled in arrivals:
                sleep_until(at + scheduled)
                started = time.monotonic_ns() - at
                # A server that is hopelessly behind says so by its last requests; it need not finish them.
                if started > end + 2_000_000_000:
                    break
                first = self.answer_one()
                ended = time.monotonic_ns() - at
                records.append([scheduled, started, first - at if first else None, ended])
            # Every request asks the same.
            self.digests.append(self.digest())


def arrivals(seconds, rate, seed, cv=1.0):
    """Nanoseconds at which requests come."""
    chance, moment, moments = random.Random(seed), 0.0, []
    shape = 1.0 / (cv * cv)
    while True:
        moment += chance.expovariate(rate) if cv == 1.0 else chance.gammavariate(shape, 1.0 / (rate * shape))
        if moment >= seconds:
            return moments
        moments.append(int(moment * 1e9))


def sleep_until(moment):
    """Sleeps, then spins: a sleep alone comes back too late by tens of microseconds."""
    while True:
        left = moment - time.monotonic_ns()
        if left <= 0:
            return
        if left > 200_000:
            time.sleep((left - 150_000) / 1e9)


class Probe:
    """A kernel of one thread that writes the GPU's clock: where it begins, the request's kernels could."""

    PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry probe(.param .u64 place) {
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [place];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u64 %rd3, %globaltimer;
    st.global.u64 [%rd2], %rd3;
    ret;
}
\0"""

    def __init__(self, torch, stream):
        self.function = None
        try:
            driver = ctypes.CDLL("libcuda.so.1")
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            if driver.cuModuleLoadData(ctypes.byref(module), self.PTX):
                return
            if driver.cuModuleGetFunction(ctypes.byref(function), module, b"probe"):
                return
            self.place = torch.zeros(1, dtype=torch.int64).pin_memory()
            self.address = ctypes.c_uint64(self.place.data_ptr())
            self.arguments = (ctypes.c_void_p * 1)(ctypes.addressof(self.address))
            self.stream = ctypes.c_void_p(stream.cuda_stream)
            self.torch_stream, self.driver, self.function = stream, driver, function
            self.set_clock()
        except OSError:
            self.function = None

    def set_clock(self):
        """Compares the GPU's clock with this machine's, by the shortest way of a launch: what is measured later is the
        wait beyond it."""
        offsets = []
        for _ in range(30 if self.function else 0):
            started = time.monotonic_ns()
            self.launch()
            self.torch_stream.synchronize()
            offsets.append(int(self.place[0]) - started)
        self.offset = min(offsets, default=0)

    def launch(self):
        if self.function:
            self.driver.cuLaunchKernel(
                self.function, 1, 1, 1, 1, 1, 1, 0, self.stream, self.arguments, None
            )

    def read(self):
        return int(self.place[0]) - self.offset if self.function else None


class Training:
    """A training loop; on the default stream unless it is given another."""

    def __init__(self, torch, name, stream=None):
        self.torch = torch
        self.stream = stream or torch.cuda.current_stream()
        torch.manual_seed(1)
        # Gradients of attention are else summed in the order in which blocks happen to end, and no two runs are the same. A
        # warning instead of an error would leave attention as it is.
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False
        with torch.cuda.stream(self.stream):
            self.step, self.losses = self.build(name), []
            # One training at a time, whichever system it is of: the activations of all at once may not fit.
            with open(__file__) as turn:
                fcntl.flock(turn, fcntl.LOCK_EX)
                self.warm_up()
                self.give_back()

    def warm_up(self):
        try:
            self.one_step()
        except RuntimeError as error:
            # Pooling of images has no such form.
            if "deterministic" not in str(error):
                raise
            self.torch.use_deterministic_algorithms(False)
        deadline = time.monotonic() + WARM_UP_SECONDS
        while time.monotonic() < deadline or len(self.losses) < WARM_UP_STEPS:
            self.one_step()
            self.stream.synchronize()

    def give_back(self):
        """What the steps left in PyTorch's cache, the activations above all, goes back to the device, where the
        trainings of other systems wait for their turns with theirs. The next turn's first step allocates anew; a rate
        counts from the end of the first step on, so that costs no system anything. A captured graph has a pool of its
        own, which stays."""
        self.torch.cuda.empty_cache()

    def one_step(self):
        # Read at the very end: reading would wait for the step.
        self.losses.append(self.step().detach().float().clone())

    def build(self, name):
        torch = self.torch
        if name == "gemm16k":
            a, b = (torch.randn(16384, 16384, device="cuda", dtype=torch.bfloat16) for _ in range(2))
            out = torch.empty_like(a)
            return lambda: torch.mm(a, b, out=out)[0, 0]
        if name == "stream":
            a = torch.ones(1 << 30, device="cuda")
            return lambda: a.mul_(1.0)[0]
        model, loss_of = self.model(name)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

        def step():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = loss_of()
            loss.backward()
            optimizer.step()
            return loss

        return step

    def model(self, name):
        torch = self.torch
        if name == "resnet50":
            import torchvision

            with torch.device("cuda"):
                model = torchvision.models.resnet50(weights=None).train()
            model = model.to(memory_format=torch.channels_last)
            generator = torch.Generator().manual_seed(2)
            images = torch.randn(256, 3, 224, 224, generator=generator).cuda()
            images = images.to(memory_format=torch.channels_last)
            labels = torch.randint(0, 1000, (256,), generator=generator).cuda()
            return model, lambda: torch.nn.functional.cross_entropy(model(images), labels)
        if name == "bert-large":
            model, tokens = bert(torch, True, 32, 384)
            model, tokens = model.train(), tokens.cuda()
            return model, lambda: model(input_ids=tokens).last_hidden_state.float().square().mean()
        from transformers import GPT2Config, GPT2LMHeadModel

        sizes = {"gpt2-medium": (1024, 24, 16, 8), "gpt2-large": (1280, 36, 20, 4)}
        if name not in sizes:
            raise SystemExit(f"no training is called {name}")
        width, layers, heads, batch = sizes[name]
        config = GPT2Config(
            n_embd=width, n_layer=layers, n_head=heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )
        with torch.device("cuda"):
            model = GPT2LMHeadModel(config).train()
        tokens = token_input(torch, batch, 1024, config.vocab_size).cuda()
        return model, lambda: model(input_ids=tokens, labels=tokens).loss

    def run(self, at, seconds, ends):
        torch, under_way = self.torch, []
        sleep_until(at)
        end = at + int(seconds * 1e9)
        with torch.cuda.stream(self.stream):
            while time.monotonic_ns() < end:
                self.one_step()
                event = torch.cuda.Event()
                event.record()
                under_way.append(event)
                if len(under_way) > 2:
                    under_way.pop(0).synchronize()
                    ends.append(time.monotonic_ns() - at)
            for event in under_way:
                event.synchronize()
                ends.append(time.monotonic_ns() - at)


def green_streams(torch):
    """Two streams, each confined to one half of the multiprocessors by a green context."""
    driver = ctypes.CDLL("libcuda.so.1")
    torch.zeros(1, device="cuda")
    sm_resource, default_stream, non_blocking = 1, 1, 1

    def check(result, what):
        if result:
            raise RuntimeError(f"{what} gave {result}")

    # A resource is 144 bytes that only the driver reads; its SM count stands at byte 96.
    whole, half, rest = (ctypes.create_string_buffer(256) for _ in range(3))
    check(driver.cuDeviceGetDevResource(0, whole, sm_resource), "cuDeviceGetDevResource")
    count = int.from_bytes(whole.raw[96:100], "little") // 16 * 8
    groups = ctypes.c_uint(1)
    check(driver.cuDevSmResourceSplitByCount(half, ctypes.byref(groups), whole, rest, 0, count), "the split")
    streams = []
    for part in (half, rest):
        plan, context, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        check(driver.cuDevResourceGenerateDesc(ctypes.byref(plan), part, 1), "cuDevResourceGenerateDesc")
        check(driver.cuGreenCtxCreate(ctypes.byref(context), plan, 0, default_stream), "cuGreenCtxCreate")
        check(driver.cuGreenCtxStreamCreate(ctypes.byref(stream), context, non_blocking, 0), "cuGreenCtxStreamCreate")
        streams.append(torch.cuda.ExternalStream(stream.value))
    return streams


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", help="model that answers requests")
    parser.add_argument("--train", help="model that is trained")
    parser.add_argument("--green", action="store_true", help="both in one process, on halves of the GPU")
    options = parser.parse_args()
    try:
        import torch

        if not torch.cuda.is_available():
            raise ImportError("PyTorch finds no GPU")
        torch.use_deterministic_algorithms(True, warn_only=True)
        # Else every new tensor is filled first, by a kernel that no program would launch.
        torch.utils.deterministic.fill_uninitialized_memory = False
        # The backward pass of cuDNN's attention has no form whose results repeat.
        torch.backends.cuda.enable_cudnn_sdp(False)
        high, low = None, None
        if options.green:
            high, low = green_streams(torch)
        elif options.latency and options.train:
            high = torch.cuda.Stream(priority=-1)
        latency = Latency(torch, options.latency, high) if options.latency else None
        training = Training(torch, options.train, low) if options.train else None
    except (ImportError, RuntimeError) as error:
        answer({"none": f"{type(error).__name__}: {error}"})
        return 1
    properties = torch.cuda.get_device_properties(0)
    answer({"ready": torch.__version__, "device": properties.name})
    for line in sys.stdin:
        command = json.loads(line)
        if "quit" in command:
            break
        if "service" in command:
            answer({"service_ns": latency.service_ns(command["service"])})
            continue
        requests, ends, threads = [], [], []
        at, seconds = command["at"], command["seconds"]
        if latency and command.get("latency"):
            coming = arrivals(seconds, **command["latency"])
            threads.append(threading.Thread(target=latency.run, args=(at, seconds, coming, requests)))
        if training and command.get("train"):
            threads.append(threading.Thread(target=training.run, args=(at, seconds, ends)))
        # Where there is one side only it runs on this thread: what it issues comes from where it warmed up.
        if len(threads) == 1:
            threads[0].run()
        else:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if ends:
            training.give_back()
        answer({"requests": requests, "steps": ends})
    answer({
        "digests": latency.digests if latency else [],
        "losses": [float(loss).hex() for loss in training.losses] if training else [],
    })
    return 0


if __name__ == "__main__":
    sys.exit(main())
