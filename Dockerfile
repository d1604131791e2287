# The course with all that it needs: `make image` builds it and passes in the commit of this checkout.
# Of the machine it wants a driver for the GPU, if there is one: CUDA comes with torch's wheel.
FROM python:3.12.12-slim-bookworm

# make runs the course, torch.compile calls a C++ compiler, lecture 09 asks git, and the grader's sandbox libseccomp.
RUN apt-get update && apt-get install --yes --no-install-recommends g++ git libseccomp2 make && rm -rf /var/lib/apt/lists/*

# An ordinary user. Give --build-arg USER_ID=$(id -u) where the image is to write to folders of yours. Docker gives a new
# volume to the owner of the folder that it is mounted on, so all that the course writes to is there, and the user's.
ARG USER_ID=1000
RUN useradd --create-home --uid $USER_ID student \
    && install --directory --owner=student /course /course/build /course/runs /data /home/student/.cache
USER student
WORKDIR /course
ENV PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1

# The pins first: where only the course has changed, torch is not installed again.
COPY --chown=student requirements.txt ./
RUN python -m venv .venv && .venv/bin/python -m pip install --disable-pip-version-check -r requirements.txt
COPY --chown=student . ./
RUN make .venv/.ready

# There is no repository in here: every run's metadata and the ledger take the commit from this.
ARG COMMIT
RUN echo "$COMMIT" | grep -Eqx '[0-9a-f]{40}(-dirty)?' || { echo "which commit is this? Build by: make image" >&2; exit 1; }
LABEL org.opencontainers.image.title="The Honest Training Loop" \
      org.opencontainers.image.licenses=MIT org.opencontainers.image.revision=$COMMIT
ENV COURSE_COMMIT=$COMMIT COURSE_DATA=/data PATH=/course/.venv/bin:$PATH

# JupyterLab, by `make lab`
EXPOSE 8888
CMD ["make", "run"]
