# CPU: `docker build -t oryx-marl .`, then
#   docker run --rm oryx-marl                  make demo
#   docker run --rm oryx-marl make test        the test suite
FROM python:3.11-slim

RUN apt-get update \
    && apt-get install --yes --no-install-recommends make \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home oryx \
    && install --directory --owner=oryx --group=oryx /home/oryx/oryx-marl
USER oryx
WORKDIR /home/oryx/oryx-marl

# What the installation needs first: it is not repeated when other files change.
COPY --chown=oryx Makefile pyproject.toml constraints.txt hatch_build.py README.md LICENSE ./
COPY --chown=oryx src/oryx_marl/__init__.py src/oryx_marl/__init__.py
RUN make .venv/.ready

COPY --chown=oryx . .
# The same files may have come with a later date; they are installed all the same.
RUN touch .venv/.ready
ENV PATH=/home/oryx/oryx-marl/.venv/bin:$PATH
CMD ["make", "demo"]
