"""Serves a model in a file by llama.cpp's server, until its input ends.

Runs in an environment of its own (`build/envs/model`). Prints the address once it answers.
"""

import sys

import xllamacpp  # pyright: ignore[reportMissingImports]


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_ctx = 4096
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    params.sampling.temp = 0.0
    params.use_jinja = True
    params.warmup = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


main()
