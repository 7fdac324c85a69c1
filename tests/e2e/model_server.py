"""A model file behind an OpenAI-compatible server on loopback, in a process that can be killed.

`python model_server.py FILE` prints the server's address, and ends when its standard input does.
"""

import sys


def serve(model: str) -> None:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.n_ctx = 4096
    parameters.n_parallel = 1
    # More threads wait for each other in a spin: on a busy machine one is the fastest.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1])
