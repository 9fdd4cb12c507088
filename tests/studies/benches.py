"""A runner whose crew works in this process."""

from lawscope.studies import registry
from lawscope.studies.display import Display
from lawscope.studies.jobs import Train
from lawscope.studies.runner import Runner
from lawscope.studies.stacks import with_starts
from lawscope.studies.undertaking import Undertaking


def undertaking(name, **changed):
    study = registry.find(name)
    settings = {**study.settings["smoke"], **changed}
    return Undertaking(name, settings, with_starts(study.plan(settings)))


class Bench:
    """Runs undertakings at once; ``outcomes`` by study."""

    def __init__(self, store, crew):
        self.store, self.crew, self.outcomes = store, crew, {}

    def run(self, *undertakings, display=None, cost=lambda training: 1.0):
        display = display or Display(show=False)
        Runner(self.store, self.crew, self.crew, display, self.keep, cost).run(undertakings)
        return self.outcomes

    def keep(self, study, outcome):
        self.outcomes[study.name] = outcome

    @property
    def training(self):
        return any(isinstance(job, Train) for _, job in self.crew.queue)

    def was_training(self, event):
        return isinstance(self.crew.by_ticket[event.ticket], Train)

    @property
    def trained(self):
        return [t.key for job in self.crew.jobs if isinstance(job, Train) for t in job.trainings]
