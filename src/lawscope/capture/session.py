"""A network opened for measuring: data goes through it, observers see it, it is left as found."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from lawscope.capture.attach import Watch
from lawscope.capture.blocks import check_causal, find_stream_blocks
from lawscope.capture.final_norm import RowNorm, find_final_norm
from lawscope.capture.outputs import find_logits, main_tensor
from lawscope.capture.restore import MODES, Mode, eager, restoring, sharded_modules, unwrap
from lawscope.capture.stations import Stations, find_stations, is_ambiguous, stations_of_stream
from lawscope.capture.taps import Observer, Reader
from lawscope.capture.trace import Trace, trace
from lawscope.checks import checked
from lawscope.data.batches import Batch, spread
from lawscope.data.source import RandomState, Source
from lawscope.data.tokens import TokenSource, check_ids, vocabulary_of, within_limits
from lawscope.errors import LawscopeError, memory_error_as_sentence
from lawscope.precision import without_autocast
from lawscope.progress import progress

EXAMPLE_SAMPLES = 11  # a number that few axes have
OTHER_SAMPLES = 13  # another, for a second look
MOST_SAID = 300  # characters of somebody else's error
CASTS = {torch.float64: "double()", torch.float32: "float()"}
T = TypeVar("T")
# Of outputs and labels; where data has none, of outputs and None.
Loss = Callable[[Tensor, Any], Tensor]


class Session:
    """A network with its data, looked at once and left exactly as found.

    Args:
        model: any module; wrappers of ``torch.compile`` and data parallelism are looked through.
        source: its data.
        mode: "train" lets BatchNorm use the statistics of each batch.
        show: progress bar, see :func:`~lawscope.progress.progress`.
        loss: a function of output and labels, for observers that read or compute gradients.

    Attributes:
        model: the network itself.
        stations: all that can be measured.
        example: what the network was looked at with.
        output_shape: of the network's main output for a few samples.
        device: of the network; None without parameters and buffers.
        final_norm: between the last block of a language model and its head, without parameters.
        final_norm_module: class of the module at which it was found.
        passes: how often the data has gone through the network.
        samples: seen in one pass, once a pass is done.
        unmasked: operations whose tokens are pooled with their padding, for want of a mask.

    Raises:
        LawscopeError: the network cannot be measured, or not with this data.
    """

    @checked
    def __init__(
        self,
        model: nn.Module,
        source: Source,
        *,
        mode: Mode = "eval",
        show: bool | None = None,
        loss: Loss | None = None,
    ) -> None:
        if mode not in MODES:
            raise LawscopeError(f"mode={mode!r} is not known; choose 'eval' or 'train'.")
        self.model, self.source, self.mode, self.show = unwrap(model), source, mode, show
        self.loss = loss
        self.passes, self.samples = 0, 0
        self.unmasked: set[int] = set()
        self._check_shards()
        parameter = next(self.model.parameters(), next(self.model.buffers(), None))
        self.device = None if parameter is None else parameter.device
        self._overwrites = True
        self._blocks: Stations | LawscopeError | None = None
        self.final_norm, self.final_norm_module = RowNorm(), ""
        if isinstance(source, TokenSource):
            self._check_task(source)
            self.example = self.fit(source.few())
        else:
            self.example = self.fit(source.peek())
        found, again = self.look(self._trace)
        _check_samples_first(again or found)
        self.stations: Stations = find_stations(found, again)
        output = main_tensor(found.output)
        self.output_shape = () if output is None else tuple(output.shape)
        self._overwrites = found.overwrites
        if isinstance(source, TokenSource):
            self._find_blocks(source, found)

    @property
    def module_names(self) -> list[str]:
        return [name for name, _ in self.model.named_modules()]

    @property
    def blocks(self) -> Stations:
        """The stream of a language model: what enters its first block, and every block."""
        if self._blocks is None:
            raise LawscopeError("Only a source of tokens shows the blocks of a language model.")
        if isinstance(self._blocks, LawscopeError):
            raise self._blocks
        return self._blocks

    def run(
        self,
        observers: Sequence[Observer],
        loss: Loss | None = None,
        description: str = "measuring",
        after_batch: Callable[[], None] | None = None,
    ) -> None:
        """Let the data through until no observer wants a pass; see :func:`run_together`."""
        run_together([(self, observers)], self.source, loss, description, after_batch)

    @contextmanager
    def attach(
        self, observers: Sequence[Observer], optimizer: Optimizer | None = None
    ) -> Iterator[Watch]:
        """Let observers watch somebody's own loop: forward, backward and optimizer steps.

        The network stays in the mode it is in, and every hook is gone after ``with``. Gradients
        are those of the last forward pass, as the backward pass makes them. A law that needs the
        data twice cannot be attached.

        Args:
            observers: who watches.
            optimizer: whose steps they watch.

        Yields:
            The watch; ``watch.labels(y)`` names the labels of the next batch, and nothing is seen
            inside ``with watch.pause():``.

        Raises:
            LawscopeError: an observer needs the data more than once.
        """
        for observer in observers:
            if (passes := observer.passes()) > 1:
                raise LawscopeError(
                    f"{type(observer).__name__} reads the data {passes} times, and a training loop "
                    "shows it once; raise memory=, or choose a strategy= that needs one pass."
                )
        reader = Reader(self.model, observers, self.unmasked)
        if reader.jacobians:
            raise LawscopeError(
                "The Jacobian of the outputs is not part of a training step; measure it on data "
                "instead, with the function of the law."
            )
        watch = Watch(reader, observers)
        with eager(), watch.hooks(optimizer):
            yield watch
        self.passes, self.samples = self.passes + 1, watch.samples
        for observer in observers:
            observer.end_pass()

    def look(self, function: Callable[[nn.Module, Batch], T], batch: Batch | None = None) -> T:
        """Return what a function makes of the network and a few samples; all is left as found.

        Args:
            function: given the network and samples; the samples are copies, because a network may
                overwrite its inputs. It gets the whole first batch if it fails with a few: a
                network may be made for one batch size only.
            batch: other samples to look with.
        """
        before = RandomState()
        try:
            with (
                self._limits(batch or self.example),
                restoring(self.model, self.mode) as keeper,
                keeper,
            ):
                if batch is not None:
                    return function(self.model, batch)
                if self.example.size > EXAMPLE_SAMPLES:
                    try:
                        return function(self.model, self.example.head(EXAMPLE_SAMPLES))
                    except Exception:  # it may insist on its batch size
                        before.restore()
                return function(self.model, self.example.head(self.example.size))
        finally:
            before.restore()

    def _trace(self, model: nn.Module, batch: Batch) -> tuple[Trace, Trace | None]:
        """Follow one forward pass, and another where the first does not tell samples apart."""
        tokens = self.example.tokens
        found = trace(model, batch, stream=None if tokens is None else tokens.shape)
        if not is_ambiguous(found):
            return found, None
        size = self.example.size
        few = self.example.head(min(size, OTHER_SAMPLES))
        with suppress(Exception):  # a network may be made for one batch size only
            return found, trace(model, few if size > EXAMPLE_SAMPLES else spread(few, size + 1))
        return found, None

    def _find_blocks(self, source: TokenSource, found: Trace) -> None:
        try:
            blocks = find_stream_blocks(self.model, found.calls)
            if source.task == "causal":
                check_causal(self.model, blocks)
        except LawscopeError as error:
            self._blocks = error
            return
        self._blocks = stations_of_stream(blocks)
        self.final_norm, self.final_norm_module = find_final_norm(found.calls, blocks)

    def _check_task(self, source: TokenSource) -> None:
        config = getattr(self.model, "config", None)
        if source.task != "encoder-decoder" and getattr(config, "is_encoder_decoder", False):
            raise LawscopeError(
                f"{type(self.model).__name__} is an encoder–decoder; pass task='encoder-decoder' "
                "and batches with 'input_ids' and 'decoder_input_ids', which measures the decoder."
            )

    def _check_shards(self) -> None:
        """Refuse shares of other lengths where all processes run every layer together."""
        if not sharded_modules(self.model) or not dist.is_initialized():
            return
        batches: list[int | None] = [None] * dist.get_world_size()
        dist.all_gather_object(batches, self.source.batches)
        if len(set(batches)) > 1:
            raise LawscopeError(
                f"The processes have {batches} batches, and a sharded network runs in all of them "
                "at once; give each the same number, as DistributedSampler does."
            )

    def fit(self, batch: Batch, all_logits: bool = False) -> Batch:
        """Return the batch as ``forward`` takes it, on the network's device.

        Named inputs without a parameter are left out; where none has one, the dict is handed over
        as it is. A language model's caches are switched off, and logits of all positions but the
        last unless they are wanted.
        """
        args, kwargs = batch.args, batch.kwargs
        parameters = inspect.signature(self.model.forward).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        known = {k: v for k, v in kwargs.items() if takes_any or k in parameters}
        if batch.tokens is not None:
            name = "decoder_input_ids" if "decoder_input_ids" in kwargs else "input_ids"
            if name in kwargs and name not in known:
                args = (kwargs[name],)
            switches = {"use_cache": False} | ({} if all_logits else {"logits_to_keep": 1})
            kwargs = known | {k: v for k, v in switches.items() if k in parameters}
        elif known:
            kwargs = known
        elif kwargs and not args and any(p.kind is not p.KEYWORD_ONLY for p in parameters.values()):
            args, kwargs = (kwargs,), {}
        return replace(batch, args=args, kwargs=kwargs).to(self.device)

    @contextmanager
    def _limits(self, batch: Batch) -> Iterator[None]:
        """Turn what a batch is too large, too long or of the wrong type for into a sentence."""
        on, remedy = f"{batch.size} samples", "use smaller batches, or measure fewer stations"
        limits: AbstractContextManager[None] = _explain_inputs(
            self.model, self.source.peek().kwargs, batch.main.dtype
        )
        if isinstance(self.source, TokenSource):
            ids = batch.first
            check_ids(ids, vocabulary_of(self.model, self.source.task))
            on = f"{ids.shape[0]} sequences of {ids.shape[1]} tokens"
            remedy = (
                "use a shorter window or smaller batches, load the model in a smaller dtype, or "
                "measure fewer blocks (every=2)"
            )
            limits = within_limits(self.model, ids)
        memory = memory_error_as_sentence(f"a batch of {on}", remedy)
        with explain_errors("network", tuple(batch.main.shape)), limits, memory:
            yield


def _check_samples_first(found: Trace) -> None:
    """Refuse data whose second axis counts samples, as an output with a row for each shows."""
    data, output = found.raw.shape, main_tensor(found.output)
    rows = () if output is None else tuple(output.shape)
    if len(data) > 1 and rows and rows[0] == data[1] != data[0] and found.batch not in rows:
        raise LawscopeError(
            f"For data of shape {data} the network returns {rows}: its second axis counts samples, "
            "as where steps come first; hand over samples first, x.transpose(0, 1), to a network "
            "that turns them back."
        )


@contextmanager
def explain_errors(whose: str, shape: tuple[int, ...]) -> Iterator[None]:
    """Turn whatever the user's network or loss raises into a sentence."""
    try:
        yield
    except LawscopeError:
        raise
    except Exception as error:
        # What observers raise while the network runs is not its own.
        if any(f.f_code.co_name == "hand_over" for f, _ in traceback.walk_tb(error.__traceback__)):
            raise
        said = str(error).strip().partition("\n")[0][:MOST_SAID]
        raise LawscopeError(
            f"The {whose} raised {type(error).__name__}{f': {said}' if said else ''} (on a batch "
            f"of shape {shape}); check that the data fits the {whose}."
        ) from error


@contextmanager
def _explain_inputs(model: nn.Module, named: dict[str, Any], data: torch.dtype) -> Iterator[None]:
    """Turn what a network raises at names or floats that are not its own into a sentence."""
    try:
        yield
    except (TypeError, AttributeError, KeyError) as error:
        parameters = inspect.signature(model.forward).parameters
        variable = {n for n, p in parameters.items() if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        needed = {n for n, p in parameters.items() if p.default is p.empty} - variable
        known = named.keys() & parameters.keys()
        if not named or (known and needed <= known and (known == named.keys() or not variable)):
            raise
        raise LawscopeError(
            f"The batches name their inputs {', '.join(map(str, named))}, and the forward of "
            f"{type(model).__name__} takes {', '.join(parameters) or 'none'}: it raised "
            f"{type(error).__name__} ({str(error).splitlines()[0]}); name them as forward does, or "
            "yield tensors in its order."
        ) from error
    except (RuntimeError, ValueError) as error:
        own = next((p.dtype for p in model.parameters() if p.is_floating_point()), data)
        differ = data.is_floating_point and own != data and "type" in str(error)
        if not differ or isinstance(error, LawscopeError):
            raise
        casts = [CASTS.get(dtype, f"to({dtype})") for dtype in (own, data)]
        raise LawscopeError(
            f"The data is {data} and the network {own}: it raised {type(error).__name__} "
            f"({str(error).splitlines()[0]}); pass x.{casts[0]} or model.{casts[1]}."
        ) from error


class _Run:
    """One network among those that the same batches go through."""

    def __init__(
        self, session: Session, observers: Sequence[Observer], loss: Loss | None, stack: ExitStack
    ) -> None:
        self.session, self.observers, self.failed = session, observers, False
        self.loss = session.loss if loss is None else loss
        self.reader: Reader
        self.random: RandomState
        self.keeper = stack.enter_context(restoring(session.model, session.mode))

    def begin_pass(self) -> bool:
        """Ask the observers what they want; return whether any wants a pass."""
        self.reader = Reader(self.session.model, self.observers, self.session.unmasked)
        if self.reader.gradients and self.loss is None:
            raise LawscopeError("Gradients are those of a loss; pass loss=, as in training.")
        if (self.reader.gradients or self.reader.jacobians) and sharded_modules(self.session.model):
            raise LawscopeError(
                "The gradients of a network under fully_shard cannot be read outside its own "
                "training step; watch its training with attach()."
            )
        return bool(self.reader.active)

    def feed(self, batch: Batch) -> None:
        session, reader = self.session, self.reader
        for observer in reader.active:
            observer.begin_batch(batch)
        fitted = session.fit(batch, all_logits=self.loss is not None)
        if session._overwrites:
            fitted = fitted.head(fitted.size)  # the data is the user's
        with session._limits(fitted), self.keeper:
            if reader.gradients or reader.jacobians:
                with torch.enable_grad():
                    # Copies that are part of the graph, and may be overwritten.
                    output = reader.run(fitted.map(_requiring_grad))
                    if reader.jacobians:
                        reader.backward_outputs(_find_outputs(output))
                    if reader.gradients:
                        assert self.loss is not None
                        value = compute_loss(self.loss, output, batch)
                if reader.gradients:
                    reader.backward(value)
            else:
                output = reader.run(fitted)
        for observer in reader.active:
            observer.see_output(output)
            observer.end_batch()

    def feed_beside(self, batch: Batch) -> None:
        """Feed with random numbers of its own, so that interleaving changes nothing."""
        others = RandomState()
        self.random.restore()
        try:
            self.feed(batch)
        finally:
            self.random = RandomState()
            others.restore()

    def end_pass(self, samples: int) -> None:
        session = self.session
        session.passes, session.samples = session.passes + 1, samples
        with without_autocast():
            for observer in self.reader.active:
                observer.end_pass()


def run_together(
    sessions: Sequence[tuple[Session, Sequence[Observer]]],
    source: Source,
    loss: Loss | None = None,
    description: str = "measuring",
    after_batch: Callable[[], None] | None = None,
    on_failure: Callable[[Session, Exception], None] | None = None,
) -> None:
    """Run the same batches through several networks, until no observer wants a pass.

    The first network draws random numbers as it would alone; the others, such as an untrained
    control, have a stream of their own, so that interleaving changes nothing. When one of them
    fails, ``on_failure`` is called and it is left out; without that the error is raised.

    For taps on gradients the loss, by default that of each session, gives a scalar of the
    network's logits and the labels. In a text these are the logits (n, V) at the tokens measured
    and the tokens to predict there, (n,).
    """
    try:
        with ExitStack() as stack:
            runs = [_Run(session, observers, loss, stack) for session, observers in sessions]
            while active := [run for run in runs if not run.failed and run.begin_pass()]:
                _one_pass(active, source, description, after_batch, on_failure)
    finally:
        source.restore()


def _one_pass(
    runs: Sequence[_Run],
    source: Source,
    description: str,
    after_batch: Callable[[], None] | None,
    on_failure: Callable[[Session, Exception], None] | None,
) -> None:
    """Feed all batches to all networks."""
    (first, *others), samples = runs, 0
    with ExitStack() as stack:
        for run in runs:
            stack.enter_context(run.reader.hooks())
            if run.reader.gradients or run.reader.jacobians:
                stack.enter_context(_learning(run.session.model))
        advance = stack.enter_context(
            progress(description, source.total, first.session.show, unit=source.unit)
        )
        for batch in source:
            for run in () if samples else others:
                run.random = RandomState()
            first.feed(batch)
            for run in [run for run in others if not run.failed]:
                try:
                    run.feed_beside(batch)
                except Exception as error:
                    if on_failure is None:
                        raise
                    run.failed = True
                    on_failure(run.session, error)
            samples += batch.size
            advance(source.units_in(batch))
            if after_batch is not None:
                after_batch()
    for run in runs:
        if not run.failed:
            run.end_pass(samples)


def _requiring_grad(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_().clone() if tensor.is_floating_point() else tensor


@contextmanager
def _learning(model: nn.Module) -> Iterator[None]:
    """Let gradients flow through frozen parameters too, inside."""
    frozen = [p for p in model.parameters() if p.is_floating_point() and not p.requires_grad]
    try:
        for parameter in frozen:
            parameter.requires_grad_(True)
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)


def _find_outputs(output: Any) -> Tensor:
    """Return the numbers per sample that a network gives."""
    found = find_logits(output)
    if found is None or not found.requires_grad or not found.dim():
        raise LawscopeError(
            f"The network returns a {type(output).__name__} without numbers to take gradients of."
        )
    return found


def compute_loss(loss: Loss, output: Any, batch: Batch) -> Tensor:
    """Return the loss of the logits among a network's outputs and the labels beside them."""
    logits = find_logits(output)
    if logits is None:
        raise LawscopeError(
            f"The network returns a {type(output).__name__} without a tensor to compute a loss of."
        )
    labels = batch.labels
    if batch.tokens is not None:
        positions = tuple(batch.main.shape[:2])
        if logits.dim() < 3 or tuple(logits.shape[:2]) != positions:
            raise LawscopeError(
                f"The labels are tokens, one for each position {positions}, and the network "
                f"returns {tuple(logits.shape)}; pass a label for each text, or a network that "
                "scores the tokens at every position."
            )
        logits = logits.flatten(0, 1)[batch.tokens.rows.to(logits.device)]
        labels = batch.tokens.targets[:, 0]
    try:
        with explain_errors("loss", tuple(logits.shape)):
            value: object = loss(logits, None if labels is None else labels.to(logits.device))
    except LawscopeError as error:
        if batch.tokens is not None:
            raise LawscopeError(
                "Of a text the loss gets the scores of each token (n, V) and the tokens that "
                "follow (n,), already shifted, as F.cross_entropy(scores, tokens) takes them. "
                f"{error}"
            ) from error
        if labels is not None:
            raise LawscopeError(
                f"{error} The loss gets two arguments: the output, of shape {tuple(logits.shape)}, "
                f"and the labels, of shape {tuple(labels.shape)}."
            ) from error
        raise LawscopeError(
            "The data has no labels, so that the second argument of the loss is None; pass (x, y) "
            f"pairs, or a loss that leaves that argument alone. {error}"
        ) from error
    if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
        what = f"a {type(value).__name__}"
        if isinstance(value, Tensor):
            what = f"a tensor of shape {tuple(value.shape)}"
            what += "" if value.requires_grad else " that does not depend on the output"
        raise LawscopeError(
            f"The loss gives {what}; it must give one number computed from the network's output, "
            "as nn.CrossEntropyLoss() does."
        )
    return value
