# The gateway as a container: serves the toolyard.toml that is mounted at /etc/toolyard.
# docs/guides/containers.md says how it is meant to be run.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
# What the servers and stores of the configuration need; "redis" for several containers.
ARG EXTRAS=objects,postgres,redis,sql
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY src ./src
RUN python -m venv /opt/toolyard \
    && /opt/toolyard/bin/pip install --no-cache-dir --constraint constraints.txt ".[${EXTRAS}]"

FROM python:${PYTHON}-slim
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/toolyard toolyard
COPY --from=build /opt/toolyard /opt/toolyard
ENV PATH=/opt/toolyard/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    XDG_STATE_HOME=/var/lib/toolyard/state
USER 10001
WORKDIR /etc/toolyard
EXPOSE 8321
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --start-interval=1s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8321/health', timeout=4)"]
# Listens on every address of the container, so the configuration needs [auth], or --open behind it says that
# whoever reaches the port may call. Other names than localhost are added there too:
# `docker run … toolyard --allow-host tools.example.com`.
ENTRYPOINT ["toolyard", "serve", "--config", "/etc/toolyard/toolyard.toml", "--host", "0.0.0.0"]
