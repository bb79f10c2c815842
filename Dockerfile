# pytest and the package, on a CPU:
#   docker run --rm -v "$PWD:/project" pytest-genderbias release.bias.yaml --bias-model=candidate=./checkpoint
# scripts/image builds and tries it.
FROM python:3.12-slim
COPY . /package
# The build of torch without CUDA comes from torch's own index.
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' /package/constraints.txt)" \
    && pip install --no-cache-dir -c /package/constraints.txt /package
RUN useradd --create-home --uid 1000 user && mkdir /project && chown user /project
USER 1000
WORKDIR /project
ENTRYPOINT ["pytest"]
CMD ["--help"]
