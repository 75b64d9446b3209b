"""`railbed.export`: the weights of a training run, as a folder that others use."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from pathlib import Path

from railbed.api.clusters import ClusterLike, cluster_words
from railbed.api.reach import Reach
from railbed.api.running import Invocation, Work
from railbed.api.stream import RecordStream
from railbed.api.trained import ModelSource, TrainedModel, model_words, trained_model
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.model.record import Record
from railbed.store import Store
from railbed.store.atomic_folder import AtomicFolder, refuse_filled
from railbed.train.export import ExportForm, MergedType, NumberType, export_copy, export_folder
from railbed.train.export import export as export_run


def export(
    source: ModelSource,
    folder: str | os.PathLike[str],
    cluster: ClusterLike = None,
    *,
    merge: bool = False,
    gguf: bool = False,
    number_type: NumberType = "auto",
    dtype: MergedType | None = None,
    node: str | None = None,
    reach: Reach | None = None,
    store: Store | None = None,
) -> RecordStream:
    """Write the weights of a training run to a new folder here, as Hugging Face's transformers loads them.

    Yields events, the last of them `WeightsFetched`. For an unfinished run, the weights are those of its newest
    checkpoint.

    `source` is a run, its name, the path of its folder, or `newest`; or the folder of a model, to write it in another
    form, on `node` of a cluster if one is given. `merge` merges an adapter into the model below it, with weights of
    `dtype`. `gguf` writes a GGUF file for llama.cpp and Ollama, with numbers of `number_type`. The cluster is that of
    the run, unless another is given.
    """
    reach, store = reach or Reach(), store or Store()
    if reach.replay:
        raise UsageError("a recording has no weights", hint="leave out replay")
    model = trained_model(source, cluster, node, store)
    if number_type != "auto" and not gguf:
        raise UsageError("--type needs --gguf", hint="--dtype is the type of merged weights")
    if dtype and (gguf or not merge):
        raise UsageError("--dtype needs --merge, and no --gguf", hint="--type is the type of a GGUF file")
    word = model_words(source)
    form = ExportForm(merge=merge, gguf=number_type if gguf else None, dtype=dtype, name=model.title or Path(word).name)
    if model.run is None and not form.is_made and not model.is_stored:
        raise UsageError(f"{word} is a folder already", hint="--merge or --gguf writes it in another form")
    target = Path(folder)
    refuse_filled(target)

    async def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        with AtomicFolder(target) as new:
            async with aclosing(_work(model, new, form)(fleet)) as records:
                async for record in records:
                    yield record

    forms = [*(["--merge"] if merge else []), *(["--gguf"] if gguf else [])]
    words = ["export", word, str(target), *forms, *cluster_words(cluster)]
    return RecordStream(Invocation(verb="export", cluster=model.cluster, work=work), reach, store, words)


def _work(model: TrainedModel, folder: AtomicFolder, form: ExportForm) -> Work:
    if model.run is not None:
        return partial(export_run, model.cluster, run=model.run, folder=folder, form=form)
    if not form.is_made:
        return lambda _: export_copy(Path(model.folder), model.title, folder)
    return partial(export_folder, model.cluster, node=model.node, path=model.folder, folder=folder, form=form)
