"""What is known of one engine: its dialect, its models, what was learned of each model, and which one it is loading."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import Struct, structs

from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.facts import WORDS, Fact, FactSource, is_unusual
from antiphon.core.knowledge.help import ENGINE_DEFAULT, Help, HelpSetting, Sampling, choose_help, parameters_in_name
from antiphon.core.knowledge.known_weights import KnownWeights, Shape, recognised

K = TypeVar("K")
T = TypeVar("T")

# Clients may ask for any name. What was learned of the oldest ones goes first.
MOST_MODELS = 256
# This many requests in a row that had to learn the same for themselves make it true of the model.
ENOUGH_REPETITIONS = 3
# The tag that some engines add to names.
LATEST = ":latest"
# What follows the name of a model in the name of a variant: a quantization, or an adapter. Engines do not list them all.
VARIANT = ("@", ":")
# The model's name for an engine that reports none.
ANY_MODEL = "default"
NOTHING_LEARNED: Mapping[str, Any] = {}
# What counts for a model until its probes have ended. Tools in the text of a message are seen by every model; those that the
# template would have to show may be seen by none.
UNTIL_PROBED: Mapping[str, Any] = {"shows_tools": False}


class Model(Struct, frozen=True):
    """What an engine reports of one of its models. A window of None is not known."""

    id: str
    created: int
    owned_by: str
    window: int | None = None
    # How many it has; None: not known.
    parameters: int | None = None
    # The shape of its weights; None: not known.
    shape: Shape | None = None
    # How many requests are processed at once; None: not known.
    slots: int | None = None
    vision: bool = False
    loaded: bool = True


class KnownFacts(Struct, frozen=True):
    """A copy of what is known of an engine, as it is written to a file."""

    name: str
    dialect: Dialect
    models: tuple[Model, ...]
    takes_any_model: bool
    sampling: Mapping[str, Sampling]
    learned: dict[str, dict[str, Any]]
    assumed: dict[str, dict[str, Any]]
    repeated: dict[str, tuple[dict[str, Any], int]]


class LearnedDialect(NamedTuple):
    """The dialect of a model, and what it was made of."""

    plain: Dialect
    facts: Mapping[str, Any]
    dialect: Dialect


class ModelTraits(NamedTuple):
    """What a request for a model is converted by."""

    dialect: Dialect
    help: Help
    sampling: Sampling
    # The engine's models, and how their tokens are chosen.
    made_of: tuple[tuple[Model, ...], Mapping[str, Sampling]]


# Those that were continued longest ago go first.
MOST_CONVERSATIONS = 1024


class ConversationForms:
    """The conversations that began with their tools in words, because it was not known yet whether the model sees others. They
    stay so: of a prompt in another form, nothing would be in the engine's cache."""

    def __init__(self, most: int = MOST_CONVERSATIONS) -> None:
        self._most = most
        # By model and key.
        self.in_words: dict[tuple[str, str], None] = {}

    def begin_in_words(self, model: str, conversation: str) -> None:
        self.forget(model, conversation)
        self.in_words[model, conversation] = None
        if len(self.in_words) > self._most:
            del self.in_words[next(iter(self.in_words))]

    def is_in_words(self, model: str, conversation: str) -> bool:
        """The conversation began so. This is asked when it is continued, and keeps it among the latest."""
        if (model, conversation) not in self.in_words:
            return False
        self.begin_in_words(model, conversation)
        return True

    def forget(self, model: str, conversation: str) -> None:
        self.in_words.pop((model, conversation), None)


class EngineKnowledge:
    """What is known of one engine. Facts come from the dialect, and from what probes, failures and answers have shown:
    `learn()` is the only writer.

    Large requests are converted in threads, which read and learn too. So a dictionary of models is never changed while others
    may read it: a new one takes its place. Of two that learn at the same moment, one may have to learn again.
    """

    def __init__(self, dialect: Dialect, models: Sequence[Model] = (), name: str = "") -> None:
        self.name = name
        self.dialect = dialect
        # The engine was found, and lists no models: it may serve any.
        self.takes_any_model = False
        # How the tokens of some models are chosen. It comes with the model, and is neither probed nor learned.
        self.sampling: Mapping[str, Sampling] = {}
        # The models whose weights were recognised, by the shapes that they had then.
        self._recognised: dict[str, Shape | None] = {}
        self._learned: dict[str, dict[str, Any]] = {}
        # How each of these facts was learned.
        self._sources: dict[str, dict[str, FactSource]] = {}
        # What is assumed of models whose probes have not ended, and has not been learned since.
        self._assumed: dict[str, dict[str, Any]] = {}
        self._dialects: dict[str, LearnedDialect] = {}
        self._traits: dict[tuple[str, HelpSetting], ModelTraits] = {}
        self._last_facts: KnownFacts | None = None
        # What the last requests of a model had to learn for themselves, and how many of them did so in a row.
        self._repeated: dict[str, tuple[dict[str, Any], int]] = {}
        # The conversations that keep a form which is not that of new ones.
        self.forms = ConversationForms()
        self.models = tuple(models)

    @classmethod
    def from_facts(cls, facts: KnownFacts) -> "EngineKnowledge":
        knowledge = cls(facts.dialect, facts.models, facts.name)
        knowledge.takes_any_model, knowledge.sampling = facts.takes_any_model, dict(facts.sampling)
        knowledge._learned, knowledge._repeated = dict(facts.learned), dict(facts.repeated)
        knowledge._assumed = {model: dict(assumed) for model, assumed in facts.assumed.items()}
        return knowledge

    def facts(self) -> KnownFacts:
        """What is known now. Only what is assumed is copied: all else is never changed, but replaced. As long as nothing has
        changed, it is the same object."""
        last = self._last_facts
        if last is not None and not (self._assumed or last.assumed):
            # Nothing has been replaced since. What was replaced by an equal value counts as changed.
            same = last.name == self.name and last.dialect is self.dialect and last.models is self._models
            learned = last.learned is self._learned and last.sampling is self.sampling and last.repeated is self._repeated
            if same and learned and last.takes_any_model == self.takes_any_model:
                return last
        facts = KnownFacts(
            self.name,
            self.dialect,
            self.models,
            self.takes_any_model,
            self.sampling,
            self._learned,
            {model: dict(assumed) for model, assumed in self._assumed.items()},
            self._repeated,
        )
        if last is None or facts != last:
            self._last_facts = last = facts
        return last

    @property
    def models(self) -> tuple[Model, ...]:
        """The models that the engine lists."""
        return self._models

    @models.setter
    def models(self, models: tuple[Model, ...]) -> None:
        self._models = models
        self._by_id = {model.id: model for model in reversed(models)}
        # An engine with one model answers with it, whatever name it is asked for.
        self._only = models[0].id if len(models) == 1 else None
        # By their names without the tag for the latest; of several with one name, the last one counts.
        self._latest = {model.id.removesuffix(LATEST): model.id for model in models}
        self._called = frozenset(self._latest.values())
        for model in models:
            if (weights := recognised(model.shape, model.id)) is not None and self._recognised.get(model.id) != model.shape:
                self._recognised[model.id] = model.shape
                self.recognise(model.id, weights)
        self._variants = tuple(model.id + mark for model in models for mark in VARIANT)

    def recognise(self, model: str, weights: KnownWeights) -> None:
        """These are the weights of the model, of which more is known than the engine reports."""
        self.sampling = {**self.sampling, model: weights.sampling}
        self.learn(model, weights.facts, "setting")

    def listed(self, model: str) -> Model | None:
        """What the engine reports of this model."""
        return self._by_id.get(model if self._only is None else self._only)

    def dialect_for(self, model: str) -> Dialect:
        """The dialect with what was learned of this model."""
        model = model if self._only is None else self._only
        learned, assumed = self._learned.get(model), self._assumed.get(model)
        if not learned and not assumed:
            return self.dialect
        facts = (learned or {}) | (assumed or {})
        # A dialect has many members: it is made once for all requests that go by the same facts.
        made = self._dialects.get(model)
        if made is None or made.plain is not self.dialect or made.facts != facts:
            made = LearnedDialect(self.dialect, facts, structs.replace(self.dialect, **facts))
            self._dialects = _with_newest(self._dialects, model, made)
        return made.dialect

    def learn(self, model: str, facts: Mapping[str, Any], source: FactSource = "learned") -> None:
        """Notes facts of the dialect about this model. Later ones replace earlier ones."""
        model = model if self._only is None else self._only
        if (assumed := self._assumed.get(model)) is not None:
            for name in facts:
                assumed.pop(name, None)
        known = self._learned.get(model, NOTHING_LEARNED)
        for name, value in facts.items():
            if known.get(name, getattr(self.dialect, name)) != value:
                break
        else:
            # Most answers teach nothing new.
            return
        self._learned = _with_newest(self._learned, model, {**known, **facts})
        sources = self._sources.get(model, {}) | dict.fromkeys(facts, source)
        self._sources = _with_newest(self._sources, model, sources)

    def facts_about(self, model: str) -> list[Fact]:
        """What the gateway goes by for this model: what was learned of it, and what is particular about its engine."""
        model, dialect = self.served(model), self.dialect_for(model)
        sources: dict[str, FactSource] = self._sources.get(model, {}) | dict.fromkeys(self._assumed.get(model, {}), "assumed")
        facts = [Fact(name, getattr(dialect, name), sources.get(name, "dialect")) for name in WORDS]
        return [fact for fact in facts if fact.name in sources or is_unusual(fact.name, fact.value)]

    def assume(self, models: Iterable[str]) -> None:
        """Goes the safe way for these models, which are going to be probed, whatever was known of them: the engine may have
        been started anew, with another template."""
        self._assumed = {self.served(model): dict(UNTIL_PROBED) for model in models}

    def assumes(self, model: str) -> bool:
        """What a probe was expected to show of this model is not known yet."""
        return bool(self._assumed) and bool(self._assumed.get(self.served(model)))

    @property
    def has_two_forms(self) -> bool:
        """Tools may be in words in one conversation, and not in another."""
        return bool(self._assumed or self.forms.in_words)

    def stop_assuming(self, model: str) -> None:
        """Ends that: its probes have ended. What they did not show stays as it was known, or as the dialect has it."""
        self._assumed.pop(self.served(model), None)

    def repeat(self, model: str, facts: Mapping[str, Any]) -> None:
        """Notes what a request had to learn for itself, if anything: what several in a row learn is true of the model."""
        repeated = self._repeated
        if not facts and not repeated:
            return
        model = self.served(model)
        if not facts and model not in repeated:
            return
        before, times = repeated.get(model, ({}, 0))
        times = times + 1 if before == facts else 1
        if facts and times < ENOUGH_REPETITIONS:
            self._repeated = _with_newest(repeated, model, (dict(facts), times))
            return
        if model in repeated:
            self._repeated = {name: entry for name, entry in repeated.items() if name != model}
        if facts:
            self.learn(model, facts)

    def serves(self, model: str) -> bool:
        """The engine lists the model, or the model of which this is a variant."""
        return model in self._by_id or model.startswith(self._variants)

    def model_called(self, name: str) -> str | None:
        """The name of the model as the engine knows it. Without a tag, a name means the latest."""
        if name not in self._called and (latest := self._latest.get(name.removesuffix(LATEST))) is not None:
            return latest
        return name if self.serves(name) else None

    def window_of(self, model: str) -> int | None:
        """The context window of this model, in tokens; None: it is not known."""
        # As in `listed()`: every request asks for it.
        listed = self._by_id.get(model if self._only is None else self._only)
        return listed.window if listed is not None else None

    def parameters_of(self, model: str) -> int | None:
        """How many parameters this model has: as the engine reports it, or as its name says."""
        listed = self.listed(model)
        reported = listed.parameters if listed is not None else None
        return reported if reported is not None else parameters_in_name(self.served(model))

    def help_for(self, model: str, setting: HelpSetting) -> Help:
        """The help that this model gets, by what is known of it."""
        return choose_help(
            setting,
            parameters=self.parameters_of(model),
            window=self.window_of(model),
            garbles_calls=self.dialect_for(model).garbles_calls,
        )

    def traits_of(self, model: str, setting: HelpSetting) -> ModelTraits:
        """What a request for this model is converted by. `setting`: which models get help."""
        dialect = self.dialect_for(model)
        known = self._traits.get((model, setting))
        # They are made anew as soon as one of the things has been replaced that they are made of.
        if known is None or known.dialect is not dialect or known.made_of != (self._models, self.sampling):
            made = ModelTraits(dialect, self.help_for(model, setting), self.sampling_for(model), (self._models, self.sampling))
            self._traits = _with_newest(self._traits, (model, setting), made)
            return made
        return known

    def sampling_for(self, model: str) -> Sampling:
        """How this model's tokens are chosen where a request does not say."""
        return self.sampling.get(self.served(model), ENGINE_DEFAULT)

    @property
    def default_model(self) -> str:
        return self.models[0].id if self.models else ANY_MODEL

    def served(self, model: str) -> str:
        """An engine with one model answers with it, whatever name it is asked for."""
        return model if self._only is None else self._only


def _with_newest(models: Mapping[K, T], model: K, entry: T) -> dict[K, T]:
    """A copy with this entry as the newest. The oldest one is removed if there are too many."""
    others = [(name, known) for name, known in models.items() if name != model]
    return dict([*others[-(MOST_MODELS - 1) :], (model, entry)])


# The model is downloaded, if it is not here; it is read into memory; it is prepared, and asked what it can do.
Stage = Literal["downloading", "loading", "starting"]


class Loading(Struct, frozen=True):
    """The model that an engine is loading, and how far it is. The engine cannot be used meanwhile."""

    model: str
    stage: Stage = "loading"
    # Bytes; None: not known.
    done: int | None = None
    total: int | None = None
    # How often in a row the engine has died, and why it did so the last time. It is started again each time.
    failures: int = 0
    reason: str | None = None

    @property
    def percent(self) -> int | None:
        return 100 * self.done // self.total if self.done is not None and self.total else None

    def __str__(self) -> str:
        """What it does, as the rest of a sentence: `loading qwen3-4b: 45 %`."""
        percent = f": {self.percent} %" if self.percent is not None else ""
        died = f". It has died before: {self.reason.splitlines()[0]}" if self.reason else ""
        return f"{self.stage} {self.model}{percent}{died}"
