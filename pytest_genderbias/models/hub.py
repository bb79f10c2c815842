"""Why the hub did not give a file: what its answer says, told apart by status and error code."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_genderbias.models.spec import ModelSpec

#: What statuses of the hub mean, and what to do; ``{id}`` is the repository.
_BY_STATUS = {
    401: (
        "the hub asks for a login before it gives {id}: it is gated or private, or there is none of that name; correct"
        " the name, give a path, --bias-model={name}=/path/to/checkpoint, or accept its terms on its page and log in"
        " (hf auth login, or the environment variable HF_TOKEN)"
    ),
    403: (
        "the hub forbids this account to read {id}: ask for access on its page, or use a token (HF_TOKEN) with the"
        " right to read it"
    ),
    429: "the hub takes no more requests from here for now: wait some minutes, or log in (HF_TOKEN), which allows more",
}
#: The same by the classes of huggingface_hub's errors, which know more than the status.
_BY_ERROR = {
    "GatedRepoError": (
        "the hub has {id}, which is gated: accept its terms on its page, and log in with the account that did (hf auth"
        " login, or the environment variable HF_TOKEN)"
    ),
    "DisabledRepoError": "the hub has disabled {id}: give another model",
    "RevisionNotFoundError": "the hub has {id}, but no revision {revision} of it; expected a branch, a tag or a commit",
    "RemoteEntryNotFoundError": (
        "the hub has {id}, but not the file that was asked for; expected the repository of a checkpoint"
    ),
}


def refusal_of_hub(error: BaseException, spec: ModelSpec) -> str | None:
    """Return why the hub did not give a file of a model, and what to do; ``None`` if it gave no answer, or has no model
    of that name.

    Args:
        error: what transformers or huggingface_hub raised.
        spec: the model on the hub.
    """
    for cause in _causes(error):
        status = _status(cause)
        if status is None:
            continue
        known = next((_BY_ERROR[kind.__name__] for kind in type(cause).__mro__ if kind.__name__ in _BY_ERROR), None)
        if known is None and status >= 500:
            known = "the hub has a fault of its own: run again later, or give a folder"
        known = known or _BY_STATUS.get(status)
        if known is not None:
            revision = "main" if spec.revision is None else spec.revision
            return f"{known.format(id=spec.target, name=spec.name, revision=revision)} (status {status})"
        return None if status == 404 else f"the hub refuses the request for {spec.target} (status {status})"
    return None


def lacks_file(error: BaseException) -> bool:
    """Return whether the hub says that there is no such file, revision or repository; also true if it said nothing."""
    return all(_status(cause) in (None, 404) for cause in _causes(error))


def has_answer(error: BaseException) -> bool:
    """Return whether the hub answered at all before an error was raised."""
    return any(_status(cause) is not None for cause in _causes(error))


def _status(error: BaseException) -> int | None:
    """Return the status of the HTTP answer that an error is about."""
    response = vars(error).get("response")
    status = getattr(response, "status_code", None)
    return status if isinstance(status, int) else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and those from which it arose."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
