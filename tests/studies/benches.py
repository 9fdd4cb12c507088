"""A scheduler whose workers work in this process."""

from lawscope.studies import registry
from lawscope.studies.display import Display
from lawscope.studies.plan import with_starts
from lawscope.studies.scheduler import PlannedStudy, Scheduler, Train


def planned(name, **changed):
    study = registry.find(name)
    settings = {**study.settings["smoke"], **changed}
    return PlannedStudy(name, settings, with_starts(study.plan(settings)))


class Bench:
    """Runs studies at once; ``outcomes`` by study."""

    def __init__(self, store, workers):
        self.store, self.workers, self.outcomes = store, workers, {}

    def run(self, *studies, display=None, cost=lambda training: 1.0):
        display = display or Display(show=False)
        Scheduler(self.store, self.workers, self.workers, display, self.keep, cost).run(studies)
        return self.outcomes

    def keep(self, study, outcome):
        self.outcomes[study.name] = outcome

    @property
    def training(self):
        return any(isinstance(job, Train) for _, job in self.workers.queue)

    def was_training(self, event):
        return isinstance(self.workers.by_id[event.job_id], Train)

    @property
    def trained(self):
        return [t.key for job in self.workers.jobs if isinstance(job, Train) for t in job.trainings]
