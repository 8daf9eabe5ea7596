# Images with Sectile on Debian 12. GPUs come in by the host's driver (docker run --gpus all).
#   docker build -t sectile .                     the programs, the library and its headers
#   docker build -t sectile-rt --target runtime . what sealed programs need: no LLVM, no compiler
FROM debian:12 AS packages
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git
COPY . /src
WORKDIR /src
RUN git config --global --add safe.directory /src && ./dev package

FROM debian:12-slim AS runtime
RUN --mount=type=bind,from=packages,source=/src/dist,target=/dist apt-get update && \
    apt-get install -y --no-install-recommends \
      /dist/libsectile-rt*.deb /dist/libsectile-vgpu*.deb /dist/libsectile-kernels*.deb && \
    rm -rf /var/lib/apt/lists/*

FROM runtime AS sectile
RUN --mount=type=bind,from=packages,source=/src/dist,target=/dist apt-get update && \
    apt-get install -y --no-install-recommends g++ cmake ninja-build pkg-config \
      /dist/libsectile0*.deb /dist/libsectile-dev*.deb /dist/sectile_*.deb && \
    rm -rf /var/lib/apt/lists/*
CMD ["sectile", "info"]
